"""A test changes the working directory, another one reads a relative path."""

import os
from pathlib import Path

from shop import prices


def test_export(tmp_path: Path) -> None:
    os.chdir(tmp_path)
    Path("export.csv").write_text("apple,3\n")
    assert prices.listed("export.csv") == {"apple": 3}


def test_prices() -> None:
    assert prices.listed()["apple"] == 3
