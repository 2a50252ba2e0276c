"""A test leaves a thread that goes on counting."""

import threading
import time

from shop.orders import Counter


def _count() -> None:
    while True:
        Counter.value += 1
        time.sleep(0.001)


def test_background_sales() -> None:
    threading.Thread(target=_count, daemon=True).start()
    assert Counter.value >= 0


def test_no_sales_meanwhile() -> None:
    before = Counter.value
    time.sleep(0.05)
    assert Counter.value == before
