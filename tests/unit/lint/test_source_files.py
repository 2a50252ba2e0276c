# SPDX-License-Identifier: Apache-2.0
"""Which Python programs a script starts."""

import pytest

from ci_doctor.lint.source_files import started_programs


@pytest.mark.parametrize(
    ("text", "file", "arguments"),
    [
        ("python3 a/b.py --x 1\ntrue\n", "a/b.py", " --x 1"),
        ("python -u b.py \\\n  --x 1; true", "b.py", " \\\n  --x 1"),
        ("  - command: python3.12 ./b.py && true", "b.py", " "),
    ],
)
def test_a_program_comes_with_its_arguments(text: str, file: str, arguments: str) -> None:
    (started,) = started_programs(text)

    assert (str(started.file), started.arguments) == (file, arguments)
    assert text[started.offset :].startswith(arguments)


@pytest.mark.parametrize("text", ["# python3 a.py", "python3 -m a.b", "ipython3 notes.txt"])
def test_comments_and_modules_are_none(text: str) -> None:
    assert list(started_programs(text)) == []


def test_a_program_may_be_a_file_that_ends_like_it() -> None:
    (started,) = started_programs("python3 ./benchmarks/serve.py")

    assert started.may_be("tools/benchmarks/serve.py")
    assert not started.may_be("tools/serve.py")
