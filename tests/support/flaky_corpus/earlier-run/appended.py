"""A test appends to a file of the temporary directory and expects one line."""

import tempfile
from pathlib import Path


def test_one_line() -> None:
    path = Path(tempfile.gettempdir()) / "shop.log"
    with path.open("a") as file:
        file.write("sold\n")
    assert path.read_text().splitlines() == ["sold"]
