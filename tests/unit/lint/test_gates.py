# SPDX-License-Identifier: Apache-2.0
"""Which Python programs decide in a job, and that no text of one ends lint."""

import pytest

from ci_doctor.lint.gates import check_python, is_gate

GATES = [
    *(".buildkite/compare.py", ".github/scripts/gate.py", "ci/gate.py"),
    *("tools/ci_tools/gate.py", "qa/L0_trace/client.py"),
]
OTHERS = ["ci.py", "package/circle.py", "ci_doctor/gate.py", "ci/gate.sh", "specific/gate.py"]


def test_python_in_folders_of_ci_is_a_gate() -> None:
    assert [file for file in GATES + OTHERS if is_gate(file)] == GATES


@pytest.mark.parametrize(
    "text",
    [
        "def half(",
        "x = '\0'",
        "\ufeffx = 1\r\n\tif x:\r\n",
        "x = " + "(" * 5_000,
        "x = " + "-" * 50_000 + "1",
        "try:\n    " + "f(" * 80 + ")" * 80 + "\nexcept Exception:\n    exit(0)\n",
    ],
    ids=["half", "NUL", "tabs and CRLF", "parentheses", "operators", "nested calls"],
)
def test_text_that_python_refuses_or_nests_deeply_is_read_or_said(text: str) -> None:
    reading = check_python("ci/gate.py", text)

    assert len(reading.unreadable) + len(reading.violations) >= 1


def test_what_python_refuses_is_said_with_its_line() -> None:
    (unreadable,) = check_python("ci/gate.py", "x = 1\ndef half(\n").unreadable

    assert (unreadable.file, unreadable.line) == ("ci/gate.py", 2)
    assert "refuses its syntax" in unreadable.reason


def test_violations_come_in_the_order_of_their_lines() -> None:
    text = (
        "import os, sys\nos.system('python3 a.py')\n"
        "try:\n    compare()\nexcept Exception:\n    sys.exit(0)\n"
        "os.system('python3 b.py')\n"
    )

    lines = [each.place.line for each in check_python("ci/gate.py", text).violations]

    assert lines == [2, 6, 7]
