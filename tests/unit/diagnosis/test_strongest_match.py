# SPDX-License-Identifier: Apache-2.0
"""Which rule names a line whose words belong to several tools."""

from pathlib import Path

import pytest

from ci_doctor.diagnosis.diagnosis import diagnose, load_rules
from ci_doctor.diagnosis.explained import explain_text
from ci_doctor.model.facts.explain import ExplainFacts


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("SyntaxError: invalid syntax", "python/syntax-error"),
        ("SyntaxError: Unexpected token '}'", "stack/node-uncaught"),
        ("TypeError: unsupported operand type(s) for +: 'int' and 'str'", "python/exception"),
        ("TypeError: x.map is not a function", "stack/node-uncaught"),
        ("java.lang.IllegalStateException: closed", "stack/java-exception"),
        ("System.NullReferenceException: Object reference not set", "stack/dotnet-exception"),
        ("ERROR in ./src/index.js", "build/webpack-error"),
        ("ERROR in src/app.ts:3:5 - error TS2304: Cannot find name 'x'.", "build/tsc-error"),
        ("  × Building wheel for x (pyproject.toml) did not run successfully.", "packages/pip-build-failed"),
        ("ERROR: /src/a.py Imports are incorrectly sorted and/or formatted.", "lint/formatter"),
        ("FAIL: reader-close.sh", "automake/failed-test"),
        ("BrokenPipeError: [Errno 32] Broken pipe", "python/pipe-closed"),
        ("lld-link: error: undefined symbol: ProfilerInit", "build/linker-error"),
        ("reader_test.cpp:12: error: Failure in TEST(reader, closes)", "unity/failed-test"),
        ("error: invalid target release: 11", "build/maven-problem"),
    ],
)  # fmt: skip
def test_a_message_is_explained_by_the_tool_that_writes_it(text: str, rule: str) -> None:
    outcome = explain_text(text, ())

    assert outcome is not None
    assert isinstance(outcome.facts, ExplainFacts)
    assert outcome.facts.rule == rule


@pytest.mark.parametrize("status", [1, 2, 124, 127, 137, 139, 143, 255])
@pytest.mark.parametrize(
    "mark",
    [
        "##[error]Process completed with exit code {}.",
        "Error: Process completed with exit code {}.",
        "##[error]The process '/usr/bin/bash' failed with exit code {}",
        "##[error]Bash exited with code '{}'.",
        "##[error]Step script exited with code {}.",
        "ERROR: Job failed: exit code {}",
        "ERROR: Job failed: command terminated with exit code {}",
        "🚨 Error: The command exited with status {}",
        "user command error: exit status {}",
        "Exited with code exit status {}",
        "ERROR: script returned exit code {}",
        "[taskcluster 2025-01-02 03:04:05.678Z] Unsuccessful task run with exit code: {} completed in 4 seconds",
        'The command "make test" exited with {}.',
        "Done. Your build exited with {}.",
    ],
)
def test_the_mark_at_the_end_of_a_job_is_no_cause(tmp_path: Path, mark: str, status: int) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"loading the widget\nthe widget is odd\n{mark.format(status)}\n")

    cause = diagnose([str(log)], load_rules()).cause

    assert cause is None or cause.place.line != 3


@pytest.mark.parametrize(
    "line", ["Killed", "sh: line 4:   28 Killed      ./server", "exit code 137"]
)
def test_a_kill_alone_is_no_proof_that_memory_ran_out(tmp_path: Path, line: str) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"loading the widget\n{line}\n")

    cause = diagnose([str(log)], load_rules(), status=137).cause

    assert cause is None or cause.class_ is None
