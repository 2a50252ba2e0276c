"""A test sleeps instead of waiting for a thread."""

import hashlib
import threading
import time


def test_thread_is_done() -> None:
    done: list[str] = []

    def work() -> None:
        done.append(hashlib.sha256(bytes(20_000_000)).hexdigest())

    threading.Thread(target=work).start()
    time.sleep(0.2)
    assert done
