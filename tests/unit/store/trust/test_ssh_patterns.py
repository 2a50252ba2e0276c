"""Pattern-lists of ssh_config(5)."""

import pytest

from ci_doctor.store.trust import matches


@pytest.mark.parametrize(
    ("text", "patterns", "expected"),
    [
        ("git", "git", True),
        ("git", "gi", False),
        ("git", "file,git", True),
        ("git", "g?t", True),
        ("git", "g*", True),
        ("git", "*,!git", False),
        ("git", "!git,*", False),
        ("git", "!file", False),
        ("g.t", "g.t", True),
        ("gxt", "g.t", False),
        ("git", "", False),
    ],
)
def test_a_list_matches_as_ssh_does(text: str, patterns: str, expected: bool) -> None:
    assert matches(text, patterns) is expected
