"""A test sleeps instead of waiting for a thread."""

import threading
import time


def test_thread_is_done() -> None:
    done: list[int] = []

    def work() -> None:
        done.append(sum(range(400_000)))

    threading.Thread(target=work).start()
    time.sleep(0.1)
    assert done
