# SPDX-License-Identifier: Apache-2.0
"""What ci-doctor proposes for a mistyped command line, by the words that people type."""

import shlex
from pathlib import Path

import pytest

from tests.support.cli import inside

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("launch --service s=vllm serve m -- true", "quote a value of several words"),
        ("compare a.jsonl b.jsonl", "did you mean `ci-doctor correctness compare`?"),
        ("drift", "did you mean `ci-doctor env diff`?"),
        ("corectness", "did you mean `correctness`?"),
        ("launch --servcie x -- true", "did you mean --service?"),
        ("run --determinism strickt -- true", "did you mean `strict`?"),
        ("correctness --determinism strict", "--determinism is an option of `ci-doctor setup-env`"),
        ("explain regresion", "did you mean `regression`?"),
        ("explain preload/race-los", "did you mean `preload/race-lost`?"),
        ("pytest --retries 2", "did you mean --reruns? --retries is an option of"),
        ("cache status -V", "see `ci-doctor cache status --help`"),
        ("cache --version", "--version is an option of `ci-doctor`"),
        ("launch --service s=sleep\\ {prot} -- true", "did you mean `{port}`?"),
        ("launch --service s=sleep\\ {port} -- curl :{s.prot}/x", "did you mean `{s.port}`?"),
        ("launch --service s=sleep\\ {port} -- curl :{port}/x", "did you mean `{s.port}`?"),
        ("correctness --retries three", "write a whole number from 1 on"),
        ("diagnose --status q x.log", "write a whole number from -64 to 255"),
        ("correctness --retries", "see `ci-doctor correctness --help`"),
        ("history flaky --days", "see `ci-doctor history flaky --help`"),
        ("correctness kept.jsonl", "write --requests kept.jsonl"),
        ("correctness kpt.jsonl", "did you mean `kept.jsonl`?"),
        ("diagnose rules --check kep.jsonl", "did you mean `kept.jsonl`?"),
        ("lint kpt.jsonl", "did you mean `kept.jsonl`?"),
        ("config show --config kep.jsonl", "did you mean `kept.jsonl`?"),
        ("env diff kep.jsonl x", "did you mean `kept.jsonl`?"),
        ("--junit verdict lint", "stands behind the command: `ci-doctor COMMAND --junit`"),
        ("version", "did you mean `ci-doctor --version`?"),
        ("help", "did you mean `ci-doctor --help`?"),
        ("test", "did you mean `ci-doctor pytest` or `ci-doctor history test`?"),
        ("history flaky --since x", "did you mean --days?"),
        ("launch --service s=true --", "leave `--` out"),
        ("launch 'python s.py {port}'", "launch --service 'server=python s.py {port}'"),
        ("launch 'python s.py'", "write: ci-doctor launch -- python s.py"),
        ("launch --service 'python s.py {port}' -- true", "write --service 'server=python s.py {port}'"),
        ("setup-env --preload xyzzy", "known names: vllm. A rule is written"),
    ],
)  # fmt: skip
@pytest.mark.gate(4)
def test_a_slip_is_answered_by_what_to_write(line: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "kept.jsonl").touch()

    ran = inside(*shlex.split(line), cwd=tmp_path, env={"COLUMNS": "200"})

    assert ran.code == 2, ran
    assert hint in ran.err, ran


@pytest.mark.parametrize(
    "line", ["explain 42", "explain 57", "correctness --determinism strict", "explain foo/bar"]
)
@pytest.mark.gate(1)
def test_nothing_is_proposed_that_is_not_alike(line: str, tmp_path: Path) -> None:
    ran = inside(*line.split(), cwd=tmp_path)

    assert ran.code == 2, ran
    assert "did you mean" not in ran.err, ran
