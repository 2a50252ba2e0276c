"""A test sleeps instead of waiting for a thread."""

import threading
import time


def test_thread_is_done() -> None:
    done: list[int] = []

    def work() -> None:
        total = 0
        for number in range(500_000):
            total += number
        done.append(total)

    threading.Thread(target=work).start()
    time.sleep(0.2)
    assert done
