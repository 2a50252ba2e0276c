"""The rows about logs of runs that passed."""

import json

import pytest

from benchmarks.diagnose.passing.frames import Frame
from benchmarks.diagnose.passing.manifest import Row, as_json_lines, tempting_lines


def row(name: str) -> Row:
    return Row(
        name=name,
        rel=f"{name}.log",
        place="click",
        tool="pytest",
        command=("pytest -v",),
        exit_code=0,
        n_lines=3,
        n_tempting=1,
        hard=True,
        frame=Frame.GITHUB,
        ours=False,
        tolerates=False,
    )


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "tests/test_x.py::test_error_message PASSED",
        "E   ZeroDivisionError: division by zero",
        "2 failed attempts",
        "bash: nvidia-smi: command not found",
        "curl: (7) Connection refused",
    ],
)
def test_a_line_with_a_word_of_failure_is_tempting(line: str) -> None:
    assert tempting_lines(f"fine\n{line}\nfine\n") == 1


@pytest.mark.parametrize("line", ["", "3 passed in 0.1 s", "mirrored", "skilled workers"])
def test_other_lines_are_not_tempting(line: str) -> None:
    assert tempting_lines(line) == 0


def test_rows_are_ordered_by_name_and_readable_as_json() -> None:
    lines = as_json_lines([row("b"), row("a")]).splitlines()

    assert [json.loads(line)["name"] for line in lines] == ["a", "b"]
    assert json.loads(lines[0])["frame"] == "github"
    assert json.loads(lines[0])["command"] == ["pytest -v"]
