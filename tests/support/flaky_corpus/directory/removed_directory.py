"""A test stays in a directory that it removes."""

import os
import tempfile
from pathlib import Path


def test_in_a_scratch_directory() -> None:
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        assert not list(Path().iterdir())


def test_working_directory() -> None:
    assert Path.cwd().is_dir()
