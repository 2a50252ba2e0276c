# SPDX-License-Identifier: Apache-2.0
"""Which Python programs a script starts."""

import pytest

from ci_doctor.lint.source_files import started_programs


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("python3 a/b.py --x 1\ntrue\n", ("a", "b.py")),
        ("python -u b.py \\\n  --x 1; true", ("b.py",)),
        ("  - command: python3.12 ./b.py && true", ("b.py",)),
    ],
)
def test_a_program_is_known_by_its_path(text: str, parts: tuple[str, ...]) -> None:
    assert list(started_programs(text)) == [parts]


@pytest.mark.parametrize("text", ["# python3 a.py", "python3 -m a.b", "ipython3 notes.txt"])
def test_comments_and_modules_are_none(text: str) -> None:
    assert list(started_programs(text)) == []
