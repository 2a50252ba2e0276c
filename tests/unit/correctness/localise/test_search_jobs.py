# SPDX-License-Identifier: Apache-2.0
"""What the jobs of a search are asked for, and which of their evidence counts."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.buildkite.agent import ApiTime
from ci_doctor.buildkite.fan_out import BuildSteps, Evidence, Gathered, Origin
from ci_doctor.buildkite.steps import TASK_VARIABLE
from ci_doctor.correctness.asked_jobs import Job, SearchPlace, Task, read_task
from ci_doctor.correctness.evidence.resume import write_starts
from ci_doctor.correctness.fan_out import assemble, pair_evidence
from ci_doctor.correctness.localise import search_jobs
from ci_doctor.correctness.localise.noise import NoisySearch
from ci_doctor.correctness.localise.search_jobs import planned_at, run_search_job, take
from ci_doctor.correctness.localise.searching import SearchRun
from ci_doctor.correctness.localise.setting_search import SettingSpace
from ci_doctor.correctness.localise.watched import StartEvidence
from ci_doctor.correctness.planning import PreparedExperiment
from ci_doctor.correctness.results import SAMPLES, Tally, without_answers
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.model.outcome import Outcome
from ci_doctor.system.processes.interruption import Interruption
from tests.unit.correctness.prepared import prepared

A, B = Arm.BASELINE, Arm.CANDIDATE
POINTS = tuple(
    SearchPlace(arm=A if point == "0" else B, point=point) for point in ("0", "3", "0", "1")
)
WAVE = ((0,), (1,), (2,), (3,))
TASK = Task(plan="ab" * 32, began="j", seed=7, waves=(WAVE,), points=POINTS)
H100, A100 = ({"gpu0.name": name, "driver": "580"} for name in ("H100", "A100"))


def left(
    one: PreparedExperiment,
    place: int,
    *,
    facts: Mapping[str, str] = H100,
    broken: str = "",
    job: str = "j",
) -> Evidence:
    """What a job left of a start that failed, or of one that could not be built."""
    directory = one.plan.directory.parent / "job"
    directory.mkdir(exist_ok=True)
    (directory / SAMPLES).write_bytes(b"")
    planned = planned_at(TASK, place)
    tally = Tally(arm=planned.arm, number=planned.number, ids=one.plan.ids, passes=one.plan.passes)
    made = without_answers(tally.result(start=tally.start(failed=True, outside=False)))
    write_starts(directory, [] if broken else [made])
    body = pair_evidence(directory, dict.fromkeys(Arm, Identity.of(facts)), broken=broken)
    name = TASK.name((place,))
    origin = Origin(build="b", plan=TASK.plan, task=name, step=TASK.key(0), job=job)
    return Evidence(origin=origin, body=body)


def gathered(*evidence: Evidence) -> Gathered:
    by_task: dict[str, tuple[Evidence, ...]] = {}
    for each in evidence:
        by_task[each.origin.task] = (*by_task.get(each.origin.task, ()), each)
    return Gathered(evidence=by_task)


def run_of(one: PreparedExperiment, deadline: float = math.inf) -> SearchRun:
    space = SettingSpace(2)
    return SearchRun(
        one.until(deadline).plan,
        one.identity,
        lambda: NoisySearch(space, confidence=0.9, most=40),
        one.redactor,
        lambda _: None,
    )


def test_a_start_is_named_by_its_place_and_bound_to_its_point() -> None:
    assert [planned_at(TASK, place).name for place in range(4)] == ["A1", "B1", "A2", "B2"]
    assert planned_at(TASK, 3).point == 1
    other = replace(TASK, points=(*POINTS[:3], SearchPlace(arm=B, point="2")))
    assert TASK.name((3,)) != other.name((3,))
    assert TASK.name((2,)) == other.name((2,))
    assert TASK.asked("b").steps == {TASK.name(pair): (TASK.key(0),) for pair in WAVE}


def test_a_point_that_is_no_number_is_no_task() -> None:
    text = '{"plan":"p","began":"j","seed":1,"waves":[],"points":[{"arm":"baseline","point":"x"}]}'
    with pytest.raises(UsageError, match=TASK_VARIABLE):
        read_task({TASK_VARIABLE: text})


def test_evidence_of_another_kind_of_agent_is_refused_also_if_it_comes_first(
    tmp_path: Path,
) -> None:
    one = prepared(tmp_path)
    made = gathered(left(one, 0), left(one, 1, facts=A100), left(one, 2))
    assembled = assemble(one, TASK, made)
    assert set(assembled.parts) == {(0,), (2,)}
    assert assembled.lost == ((1,), (3,))
    assert "A100" in assembled.refused[0]
    assert "not H100" in assembled.refused[0]
    # The kind of the first evidence stays, whichever start comes later.
    task = replace(TASK, kind=assembled.parts[(0,)].agent())
    later = gathered(left(one, 0, facts=A100), left(one, 1, facts=A100), left(one, 1, job="again"))
    again = assemble(one, task, later)
    assert {pair: part.origin.job for pair, part in again.parts.items()} == {(1,): "again"}


def test_evidence_of_another_start_at_the_same_place_does_not_count(tmp_path: Path) -> None:
    one = prepared(tmp_path)
    wrong = left(one, 1)
    moved = replace(wrong, origin=replace(wrong.origin, task=TASK.name((3,))))
    assembled = assemble(one, TASK, gathered(moved))
    assert not assembled.parts
    assert assembled.refused == ("job j does not hold B2",)


def test_what_cannot_be_built_is_skipped_and_an_end_of_it_is_an_error(tmp_path: Path) -> None:
    one = prepared(tmp_path)
    run = run_of(one)
    made = gathered(left(one, 0), left(one, 3, broken="no compiler"))
    take(run, TASK, assemble(one, TASK, made))
    assert [(each.planned.name, each.broken) for each in run.evidence] == [
        ("A1", ""),
        ("B2", "no compiler"),
    ]
    assert run.replayed.search.space.broken == {1}
    with pytest.raises(InfraError, match="an end of the search cannot be built"):
        take(run, TASK, assemble(one, TASK, gathered(left(one, 1, broken="no compiler"))))


def test_a_broken_pair_is_no_evidence_of_an_experiment(tmp_path: Path) -> None:
    one = prepared(tmp_path)
    task = replace(TASK, waves=(((0, 1),),), points=())
    broken = left(one, 3, broken="no compiler")
    moved = replace(broken, origin=replace(broken.origin, task=task.name((0, 1))))
    assert assemble(one, task, gathered(moved)).lost == ((0, 1),)


class Asking(Job, frozen=True, kw_only=True):
    """A job that has gathered this."""

    given: Gathered = Gathered(evidence={})

    def gathered(self) -> Gathered:
        return self.given


class NoPlace:
    """Nothing is started here."""

    def plan(self, point: int) -> None:
        raise AssertionError(point)

    build = plan


def decided(
    monkeypatch: pytest.MonkeyPatch,
    one: PreparedExperiment,
    task: Task | None,
    made: Gathered,
    deadline: float = math.inf,
) -> tuple[Task | None, SearchRun]:
    """What is asked for next by the job that decides over `task`, or by the first job; None if the search is over."""
    asked: list[Task] = []

    def hand_on(_: PreparedExperiment, job: Job, wave: tuple[tuple[int, ...], ...]) -> Outcome:
        asked.append(replace(job.task, waves=(*job.task.waves, wave)))
        return Outcome(verdict=None, summary="")

    job = Asking(
        agent=BuildSteps("buildkite-agent", {}, api_time=ApiTime()),
        environ={},
        build="b",
        number=0,
        task=replace(task or replace(TASK, waves=(), points=()), decides=True),
        is_first=task is None,
        given=made,
    )
    monkeypatch.setattr(search_jobs, "enter", lambda *_: job)
    monkeypatch.setattr(search_jobs, "hand_on", hand_on)
    run = run_of(one, deadline)
    over = Outcome(verdict=None, summary="over")
    outcome = run_search_job(one, run, NoPlace(), {}, Interruption(), lambda: over)  # type: ignore[arg-type]
    assert (outcome.summary == "over") is not bool(asked)
    return (asked[0] if asked else None), run


def test_the_first_wave_starts_both_ends_three_times_if_there_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = prepared(tmp_path)
    task, _ = decided(monkeypatch, one, None, gathered())
    assert task is not None
    assert task.waves == (tuple((place,) for place in range(6)),)
    assert [each.point for each in task.points] == ["0", "3"] * 3
    task, run = decided(monkeypatch, one, None, gathered(), 0.0)
    assert task is None
    assert "budget" in run.stopped


def test_what_is_lost_is_asked_for_once_more_and_then_ends_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = prepared(tmp_path)
    made = gathered(left(one, 0), left(one, 1), left(one, 2))
    task, _ = decided(monkeypatch, one, TASK, made)
    assert task is not None
    assert task.waves == (WAVE, ((3,),))
    assert task.points == POINTS
    assert task.kind.startswith("H100")
    task, run = decided(monkeypatch, one, task, made)
    assert task is None
    assert run.stopped == "B2: no evidence that counts in two jobs"


def test_after_a_whole_wave_the_search_asks_for_what_it_wants_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = prepared(tmp_path)
    made = gathered(*(left(one, place) for place in range(4)))
    task, run = decided(monkeypatch, one, TASK, made)
    assert task is not None
    assert task.points[:4] == POINTS
    expected = [each.point for each in run.next_starts(6)]
    assert [int(each.point) for each in task.points[4:]] == expected
    assert task.waves[1] == tuple((place,) for place in range(4, len(task.points)))
    assert all(isinstance(each, StartEvidence) for each in run.evidence)
