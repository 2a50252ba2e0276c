"""A test needs a folder that another one makes."""

from pathlib import Path


def test_makes_folder() -> None:
    Path("export").mkdir(exist_ok=True)
    assert Path("export").is_dir()


def test_export() -> None:
    Path("export/prices.csv").write_text("apple,3\n")
    assert Path("export/prices.csv").exists()
