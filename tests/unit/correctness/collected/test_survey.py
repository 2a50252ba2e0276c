# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.sources import NoEvidenceError, Source
from ci_doctor.correctness.collected.survey import Survey, survey
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import UsageError
from tests.unit.correctness.collected.sample_files import response, responses, source, write
from tests.unit.correctness.report.recorded_runs import answer, line, write_run


def of(directory: Path, left: str, right: str) -> Survey:
    a = source(Arm.BASELINE, write(directory / "a", responses(left)))
    b = source(Arm.CANDIDATE, write(directory / "b", responses(right)))
    return survey([a], [b])


def test_only_what_may_differ_keeps_its_positions(tmp_path: Path) -> None:
    found = of(tmp_path, "x y z", "x w z")

    assert (found.requests, found.passes, found.aligned) == (["c-0", "c-1", "c-2"], 1, "id")
    assert list(found.odd) == ["c-1"]
    assert [column[1][0].line for column in found.odd["c-1"]] == [2, 2]


def test_files_in_another_order_are_aligned_by_id(tmp_path: Path) -> None:
    a = source(Arm.BASELINE, write(tmp_path / "a", responses("x y")))
    b = source(Arm.CANDIDATE, write(tmp_path / "b", responses("x y")[::-1]))

    found = survey([a], [b])

    assert (found.aligned, list(found.odd)) == ("id", [])


def test_an_error_on_both_sides_is_odd(tmp_path: Path) -> None:
    assert list(of(tmp_path, "x -", "x -").odd) == ["c-1"]


def test_random_ids_are_aligned_by_line(tmp_path: Path) -> None:
    a = source(Arm.BASELINE, write(tmp_path / "a", [response("p", "x"), response("q", "y")]))
    b = source(Arm.CANDIDATE, write(tmp_path / "b", [response("r", "x"), response("s", "z")]))

    found = survey([a], [b])

    assert (found.aligned, found.requests, list(found.odd)) == ("line", ["line 1", "line 2"], ["line 2"])  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [("", "", "hold no answers"), ("x", "", "no sample of the candidate")],
)
def test_files_without_answers_are_no_evidence(
    tmp_path: Path, left: str, right: str, reason: str
) -> None:
    with pytest.raises(NoEvidenceError, match=reason):
        of(tmp_path, left, right)


def sample(arm: str, start: int, text: str) -> dict[str, object]:
    output = {"choices": [{"index": 0, "text": text}]}
    return {"arm": arm, "start": start, "pass": 1, "id": "r0", "output": output}


def test_a_file_of_both_arms_gives_each_side_its_own_starts(tmp_path: Path) -> None:
    path = write(tmp_path / "s", [sample("baseline", 1, "x"), sample("candidate", 1, "x"), sample("candidate", 2, "y")])  # fmt: skip
    sides = [[source(arm, path, SampleFormat.OURS)] for arm in Arm]

    found = survey(*sides)

    assert [start.name for start in found.starts] == ["A1", "B1", "B2"]
    assert found.notes == ()


def test_a_file_of_the_other_arm_is_taken_whole_with_a_note(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [sample("baseline", 1, "x"), sample("baseline", 2, "x")])
    b = write(tmp_path / "b", [sample("baseline", 1, "x")])

    found = survey([source(Arm.BASELINE, a, SampleFormat.OURS)], [source(Arm.CANDIDATE, b, SampleFormat.OURS)])  # fmt: skip

    assert [start.name for start in found.starts] == ["A1", "A2", "B1"]
    assert len(found.notes) == 1


def test_the_same_samples_on_both_sides_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [sample("baseline", 1, "x"), sample("baseline", 2, "x")])

    with pytest.raises(UsageError, match="does not hold both arms"):
        survey(*[[source(arm, path, SampleFormat.OURS)] for arm in Arm])


def test_the_controls_of_a_run_are_not_compared(tmp_path: Path) -> None:
    x, y = answer("a", "x"), answer("a", "y")
    lines = [
        line("A1", "r0", x),
        line("A1", "control:r0", x, 0),
        line("B1", "r0", x),
        line("B1", "control:r0", y, 0),
    ]
    run = write_run(tmp_path / "run", *lines) / "samples.jsonl"
    a, b = (Source(arm=arm, path=run, form=SampleFormat.OURS) for arm in Arm)

    found = survey([a], [b])

    assert (found.requests, list(found.odd)) == (["r0"], [])
