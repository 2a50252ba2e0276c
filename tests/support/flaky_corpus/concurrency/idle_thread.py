"""A test leaves a thread that waits for ever."""

import threading


def test_pool() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    assert threading.active_count() > 1


def test_single_thread() -> None:
    assert threading.active_count() == 1
