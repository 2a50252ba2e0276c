"""A test leaves a file in the working directory."""

from pathlib import Path


def test_saves_state() -> None:
    Path("state.json").write_text("{}")
    assert Path("state.json").exists()


def test_begins_without_state() -> None:
    assert not Path("state.json").exists()
