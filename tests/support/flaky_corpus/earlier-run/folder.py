"""A test makes a folder and never removes it."""

from pathlib import Path


def test_makes_folder() -> None:
    Path("export").mkdir()
    assert Path("export").is_dir()
