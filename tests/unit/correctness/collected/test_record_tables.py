# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.collected.record_tables import ChosenStart, align
from ci_doctor.correctness.collected.sources import NoEvidenceError, SourcePosition
from ci_doctor.correctness.collected.start_records import (
    CollectedStart,
    FileStart,
    SurveyRecord,
)
from ci_doctor.correctness.settings import Arm
from tests.unit.correctness.collected.sample_files import source


def start(arm: Arm, number: int, *records: tuple[str | None, bytes | None]) -> ChosenStart:
    """A start of answers, each with its id and the token of its bytes."""
    file = source(arm, Path(f"{arm.letter}{number}"))
    made = []
    for line, (identity, token) in enumerate(records, start=1):
        position = SourcePosition(source=file, offset=line, length=1, line=line)
        made.append(SurveyRecord(identity, 1, token, position))
    return CollectedStart(arm=arm, number=number, source=file), FileStart(source=file, arm=None, records=made)  # fmt: skip


def test_requests_keep_their_order_and_odd_ones_their_positions() -> None:
    aligned = align(
        [
            start(Arm.BASELINE, 1, ("b", b"x"), ("a", b"y")),
            start(Arm.CANDIDATE, 1, ("a", b"z"), ("b", b"x"), ("c", b"x")),
        ]
    )

    assert (aligned.requests, aligned.by_line) == (["b", "a", "c"], False)
    assert list(aligned.odd) == ["a", "c"]
    assert [list(column) for column in aligned.odd["c"]] == [[], [1]]


def test_an_unknown_token_and_a_duplicate_id_are_odd() -> None:
    aligned = align(
        [
            start(Arm.BASELINE, 1, ("a", None), ("b", b"x"), ("b", b"x")),
            start(Arm.CANDIDATE, 1, ("a", None), ("b", b"x")),
        ]
    )

    assert list(aligned.odd) == ["a", "b"]
    assert len(aligned.odd["b"][0][1]) == 2


def test_random_ids_align_by_line_if_there_are_as_many_and_none_comes_twice() -> None:
    assert align(
        [start(Arm.BASELINE, 1, ("a", b"x")), start(Arm.CANDIDATE, 1, ("b", b"x"))]
    ).by_line
    with pytest.raises(NoEvidenceError, match="no request id in common"):
        align([start(Arm.BASELINE, 1, ("a", b"x")), start(Arm.CANDIDATE, 1, ("b", b"x"), ("c", b"x"))])  # fmt: skip
    with pytest.raises(NoEvidenceError, match="no request id in common"):
        align([start(Arm.BASELINE, 1, ("a", b"x")), start(Arm.BASELINE, 2, ("a", b"x")), start(Arm.CANDIDATE, 1, ("b", b"x"))])  # fmt: skip


def test_answers_without_ids_align_by_line_if_there_are_as_many() -> None:
    assert align([start(Arm.BASELINE, 1, (None, b"x")), start(Arm.CANDIDATE, 1, (None, b"x"))]).by_line  # fmt: skip
    with pytest.raises(NoEvidenceError, match="no ids"):
        align([start(Arm.BASELINE, 1, (None, b"x")), start(Arm.CANDIDATE, 1, (None, b"x"), (None, b"x"))])  # fmt: skip
