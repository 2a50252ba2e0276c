# SPDX-License-Identifier: Apache-2.0
"""What ci-doctor proposes for a mistyped command line, by the words that people type."""

import shlex
from pathlib import Path

import pytest

from tests.support.cli import doctor

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("launch --service s=vllm serve m -- true", "quote a value of several words"),
        ("compare a.jsonl b.jsonl", "did you mean `ci-doctor correctness compare`?"),
        ("flaky", "did you mean `ci-doctor history flaky`?"),
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
    ],
)
@pytest.mark.gate(4)
def test_a_slip_is_answered_by_what_to_write(line: str, hint: str, tmp_path: Path) -> None:
    ran = doctor(*shlex.split(line), cwd=tmp_path)

    assert ran.code == 2, ran
    assert hint in ran.err, ran


@pytest.mark.parametrize(
    "line", ["explain 42", "explain 57", "correctness --determinism strict", "explain foo/bar"]
)
@pytest.mark.gate(1)
def test_nothing_is_proposed_that_is_not_alike(line: str, tmp_path: Path) -> None:
    ran = doctor(*line.split(), cwd=tmp_path)

    assert ran.code == 2, ran
    assert "did you mean" not in ran.err, ran
