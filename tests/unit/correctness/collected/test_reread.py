# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.reread import SAME, TWICE, reread
from ci_doctor.correctness.collected.sources import NoEvidenceError
from ci_doctor.correctness.collected.survey import survey
from ci_doctor.correctness.settings import Arm
from tests.unit.correctness.collected.sample_files import (
    collect,
    response,
    responses,
    source,
    write,
)


def test_what_is_the_same_everywhere_is_not_read_again(tmp_path: Path) -> None:
    collected = collect(tmp_path, ["x y"], ["x z"])
    one, other = collected.starts

    assert one.answers["c-0"] == other.answers["c-0"] == SAME
    assert one.answers["c-1"] != other.answers["c-1"]
    assert collected.output("B1", "c-1", 1) == {"choices": [{"index": 0, "text": "the z", "finish_reason": "length"}]}  # fmt: skip
    assert collected.output("B1", "c-0", 1) is None


def test_an_error_is_no_answer(tmp_path: Path) -> None:
    collected = collect(tmp_path, ["x y"], ["x -"])
    candidate = collected.starts[1]

    assert candidate.answers["c-1"] is None
    assert [collected.answered(start) for start in collected.starts] == [2, 1]
    assert list(collected.errors) == ["B1"]


def test_an_id_that_comes_twice_is_no_answer(tmp_path: Path) -> None:
    twice = [response("c-0", "x"), response("c-0", "x")]
    a = source(Arm.BASELINE, write(tmp_path / "a", twice))
    b = source(Arm.CANDIDATE, write(tmp_path / "b", responses("x")))
    collected = reread(survey([a], [b]))

    assert collected.errors["A1"] == {"c-0": TWICE}
    assert collected.place("A1", "c-0", 1) is None


def test_a_pass_that_cannot_be_is_refused_at_once(tmp_path: Path) -> None:
    lines = [
        {"arm": "baseline", "start": 1, "pass": number, "id": "r0", "status": 200, "error": None}
        | {"output": {"choices": [{"text": "a"}]}}
        for number in (1, 999_999_999)
    ]
    path = write(tmp_path / "samples.jsonl", lines)
    other = write(tmp_path / "other.jsonl", lines)
    sides = [
        [source(arm, each, SampleFormat.OURS)] for arm, each in zip(Arm, (path, other), strict=True)
    ]
    with pytest.raises(NoEvidenceError, match="answers of pass 999999999, and of 2 passes in all"):
        survey(*sides)
