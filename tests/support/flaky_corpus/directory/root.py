"""A test goes to the root of the file system."""

import os
from pathlib import Path


def test_absolute_names() -> None:
    os.chdir("/")
    assert Path("tmp").resolve() == Path("/tmp").resolve()


def test_package_is_here() -> None:
    assert Path("shop").is_dir()
