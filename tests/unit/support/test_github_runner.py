# SPDX-License-Identifier: Apache-2.0
"""The stand-in for GitHub's runner does what GitHub documents; its own docstrings name the pages."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.github_expressions import holds, render
from tests.support.github_machine import machine
from tests.support.github_runner import pairs

CONTEXTS: dict[str, Any] = {"steps": {"run": {"outputs": {"exit-code": "75", "none": ""}}}}


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("steps.run.outputs.exit-code", "75"),
        ("steps.lost.outputs.exit-code", ""),
        ("steps.run.outputs.none || 'it''s empty'", "it's empty"),
        ("steps.run.outputs.exit-code && 'yes'", "yes"),
        ("steps.run.outputs.exit-code == '75'", "true"),
        ("'A' == 'a'", "true"),
        ("!('x' == 'y') && 'x' != 'y'", "true"),
        ("'' || 'a' && 'b'", "b"),
    ],
)
def test_an_expression_has_its_value(expression: str, text: str) -> None:
    assert render("<${{ " + expression + " }}>", CONTEXTS) == f"<{text}>"


@pytest.mark.parametrize(
    ("condition", "failed", "runs"),
    [
        (None, False, True),
        (None, True, False),
        ("'a' == 'a'", True, False),
        ("always() && 'a' == 'a'", True, True),
        ("${{ failure() }}", True, True),
        ("failure()", False, False),
        ("success()", True, False),
    ],
)
def test_a_condition_without_a_status_holds_if_nothing_failed(
    condition: str | None, failed: bool, runs: bool
) -> None:
    assert holds(condition, CONTEXTS, failed=failed) == runs


def test_variables_are_lines_or_blocks() -> None:
    assert pairs("A=1=2\nB<<END\nx=y\n\nEND\nC=\n") == {"A": "1=2", "B": "x=y\n", "C": ""}
    with pytest.raises(AssertionError, match="Matching delimiter not found"):
        pairs("A<<END\nx\n")


def test_files_and_statuses_reach_later_steps(tmp_path: Path) -> None:
    runner = machine(tmp_path, tmp_path)
    steps = [
        {
            "shell": "bash",
            "run": 'echo A=b >>"$GITHUB_ENV"; echo here >>"$GITHUB_PATH"; echo "A=${A-}"',
        },
        {"shell": "bash", "run": 'echo "A=$A ${PATH%%:*}"; exit 3', "continue-on-error": True},
        {"shell": "bash", "run": "false | cat; echo went on"},
        {"shell": "bash", "run": "echo not this"},
        {"shell": "bash", "run": "echo but this", "if": "always()"},
    ]

    job = runner.run_job({"steps": steps}, {}, {})

    printed = [line for line in job.log.splitlines() if not line.startswith("##")]
    assert printed == ["A=", "A=b here", "but this"]
    assert job.result == "failure"


def test_what_github_refuses_in_its_file_is_refused(tmp_path: Path) -> None:
    step = {"shell": "bash", "run": 'echo NODE_OPTIONS=x >>"$GITHUB_ENV"'}

    with pytest.raises(AssertionError, match="GitHub refuses NODE_OPTIONS"):
        machine(tmp_path, tmp_path).run_job({"steps": [step]}, {}, {})
