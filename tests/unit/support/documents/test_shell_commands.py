# SPDX-License-Identifier: Apache-2.0
"""The statements of a block, and each ci-doctor in them."""

import pytest

from tests.support.documents.shell_commands import Statement, statements, tool_commands


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FOO=1 ci-doctor explain 'exit 75' | head -1", [("explain", "exit 75")]),
        ("make || ci-doctor diagnose a.log", [("diagnose", "a.log")]),
        ('exports=$(ci-doctor setup-env) && eval "$exports"', [("setup-env",)]),
        ("uvx --from X ci-doctor explain 75", [("explain", "75")]),
        ("pip install ci-doctor-toolkit", []),
        ("ci-doctor correctness … --resume DIR", [("correctness", "--resume", "DIR")]),
        (
            "ci-doctor run -- ci-doctor explain 75",
            [("run", "--", "ci-doctor"), ("explain", "75")],
        ),
    ],
)
def test_each_ci_doctor_of_a_script_is_read(text: str, words: list[tuple[str, ...]]) -> None:
    assert tool_commands(text) == words


def test_statements_keep_their_lines_and_a_console_its_output() -> None:
    script = "a=$(x) && case $a in\n  y) ;; esac\nls \\\n  -l   # exit 1\ncd a && ls\n"

    assert [(each.line, each.text.split()[0]) for each in statements("sh", script)] == [
        (0, "a=$(x)"),
        (2, "ls"),
        (4, "cd"),
    ]
    assert statements("console", "$ ls\na\nb\n$ pwd\n/\n") == [
        Statement(0, "ls", "a\nb\n"),
        Statement(3, "pwd", "/\n"),
    ]
