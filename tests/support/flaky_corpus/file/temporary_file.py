"""A test leaves a file in the directory for temporary files."""

import tempfile
from pathlib import Path


def _lock() -> Path:
    return Path(tempfile.gettempdir()) / "shop.lock"


def test_takes_lock() -> None:
    _lock().touch()
    assert _lock().exists()


def test_lock_is_free() -> None:
    _lock().touch(exist_ok=False)
    _lock().unlink()
