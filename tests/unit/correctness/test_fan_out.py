# SPDX-License-Identifier: Apache-2.0
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.buildkite.fan_out import Evidence, Gathered, NotEvidenceError, Origin
from ci_doctor.buildkite.steps import TASK_VARIABLE
from ci_doctor.correctness.asked_jobs import (
    Task,
    in_words,
    pairs_of,
    plan_digest,
    read_task,
    settings_of,
    starts_at,
)
from ci_doctor.correctness.evidence.resume import write_starts
from ci_doctor.correctness.evidence.run_identity import identify
from ci_doctor.correctness.fan_out import (
    AssembledEvidence,
    PairEvidence,
    assemble,
    job_lines,
    pair_evidence,
    with_lost,
    without_lost,
)
from ci_doctor.correctness.planning import PreparedExperiment
from ci_doctor.correctness.results import SAMPLES, Tally, without_answers
from ci_doctor.correctness.settings import Arm, CorrectnessSettings
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.model.outcome import Verdict
from ci_doctor.services.spec import ServiceSpec
from tests.unit.correctness.prepared import prepared

A, B = Arm.BASELINE, Arm.CANDIDATE
TASK = Task(plan="ab" * 32, began="j", seed=7, waves=(((0, 1),), ((2, 3), (4,)), ((2, 3),)))


ORIGIN = Origin(build="b", plan=TASK.plan, task="1-2", step=TASK.key(0), job="j1")


def left(
    facts: Mapping[str, str], unknown: Mapping[str, str] | None = None, host: str = "h"
) -> PairEvidence:
    identity = Identity.of(facts, unknown)
    return PairEvidence(
        arms={A: identity, B: identity}, starts=b"", samples=b"", logs={}, origin=ORIGIN, host=host
    )


def test_a_job_makes_two_neighbours_of_the_drawn_order() -> None:
    assert pairs_of(2, 9) == ((2, 3), (4, 5), (6, 7), (8,))
    assert starts_at((A, B, B, A, B), (3, 4)) == ((A, 2), (B, 3))


def test_each_pair_knows_the_steps_that_were_asked_for_it() -> None:
    steps = TASK.asked("b").steps
    first, second, third = (TASK.key(wave) for wave in range(3))
    assert steps == {"1-2": (first,), "3-4": (second, third), "5": (second,)}
    assert len(first) <= 100


def test_a_task_is_read_as_it_was_written_and_another_text_is_refused() -> None:
    text = json.dumps({"plan": TASK.plan, "began": "j", "seed": 7, "waves": [[[0, 1]]]})
    read = read_task({TASK_VARIABLE: text})
    assert read is not None
    assert read.waves == (((0, 1),),)
    assert read_task({}) is None
    for wrong in ("{", '{"plan": 1}', "[]"):
        with pytest.raises(UsageError, match=TASK_VARIABLE):
            read_task({TASK_VARIABLE: wrong})


@pytest.mark.parametrize(
    ("pair", "lies"), [((4,), True), ((4, 5), False), ((-1,), False), ((), False)]
)
def test_a_task_names_starts_of_its_order_alone(pair: tuple[int, ...], lies: bool) -> None:
    task = replace(TASK, waves=(*TASK.waves, (pair,)))
    assert task.lies_within(5) == lies


def test_what_all_jobs_agree_on_changes_with_each_part_of_it(tmp_path: Path) -> None:
    one = prepared(tmp_path)
    digests = {
        plan_digest(one, "j1"),
        plan_digest(one, "j2"),
        plan_digest(prepared(tmp_path, 3), "j1"),
        plan_digest(prepared(tmp_path, max_starts=32), "j1"),
        plan_digest(prepared(tmp_path, seed=99), "j1"),
    }
    assert len(digests) == 5
    assert plan_digest(prepared(tmp_path), "j1") in digests
    # Another agent may have another environment: it is of another kind then.
    environment = {**one.plan.environment, "CUBLAS_WORKSPACE_CONFIG": ":16:8"}
    other = replace(one, plan=replace(one.plan, environment=environment))
    assert identify(other.plan).hashes != identify(one.plan).hashes
    assert plan_digest(other, "j1") in digests


def test_where_an_agent_has_its_checkout_makes_no_other_plan(tmp_path: Path) -> None:
    digests = set()
    for agent in ("a", "b"):
        root = tmp_path / agent / "checkout"
        one = prepared(tmp_path)
        spec = ServiceSpec(command=f"python {root}/serve.py {{port}}", env={"TABLE": f"{root}/t"})
        arms = {arm: replace(each, specs={arm.value: spec}) for arm, each in one.plan.arms.items()}
        plan = replace(
            one.plan, arms=arms, environment={"BUILDKITE_BUILD_CHECKOUT_PATH": str(root)}
        )
        digests.add(plan_digest(replace(one, plan=plan), "j1"))
    assert len(digests) == 1


def assembled_of(one: PreparedExperiment, *bodies: bytes) -> AssembledEvidence:
    """What is assembled of attempts of the first pair, in their order."""
    attempts = tuple(
        Evidence(origin=replace(ORIGIN, job=f"j{number}"), body=body)
        for number, body in enumerate(bodies)
    )
    task = replace(TASK, waves=(((0, 1),),))
    return assemble(one, task, Gathered(evidence={"1-2": attempts}))


def test_the_report_says_in_what_kinds_of_agents_differ(tmp_path: Path) -> None:
    facts = {"gpu0.name": "NVIDIA H100", "driver": "580.65", "gpu0.uuid": "GPU-1"}
    others = {**facts, "driver": "570.1", "gpu0.uuid": "GPU-2"}
    parts = {(0, 1): left(facts), (2, 3): left(others), (4,): left(facts)}
    one = prepared(tmp_path)
    assembled = assembled_of(one)
    *jobs, difference = job_lines(one.pace.order, replace(assembled, parts=parts))
    assert len(jobs) == 3
    assert difference.endswith("differ in driver 580.65 -> 570.1")
    assert not [*job_lines(one.pace.order, assembled)]


def test_a_job_that_is_repeated_does_not_choose_among_answers(tmp_path: Path) -> None:
    one = prepared(tmp_path)
    names = [arm for arm, _ in starts_at(one.pace.order, (0, 1))]

    def body(*, is_outside: bool = False) -> bytes:
        directory = tmp_path / "job"
        directory.mkdir(exist_ok=True)
        (directory / SAMPLES).write_bytes(b"")
        made = dict.fromkeys(names, 0)
        results = []
        for arm in names:
            made[arm] += 1
            tally = Tally(arm=arm, number=made[arm], ids=one.plan.ids, passes=one.plan.passes)
            start = tally.start(failed=True, outside=is_outside)
            results.append(without_answers(tally.result(start=start)))
        write_starts(directory, results)
        return pair_evidence(directory, one.identities, is_outside=is_outside)

    counting = assembled_of(one, body(), body())
    assert counting.parts[(0, 1)].origin.job == "j0"
    assert counting.repeated == (f"{in_words(one.pace.order, (0, 1))}: job j1, beside j0",)
    # What was ended from outside has no answers to choose among.
    assert assembled_of(one, body(is_outside=True), body()).parts[(0, 1)].origin.job == "j1"
    assert assembled_of(one, body(is_outside=True)).parts[(0, 1)].origin.job == "j0"


def test_a_lost_pair_leaves_all_others_in_their_blocks(tmp_path: Path) -> None:
    one = prepared(tmp_path)
    assembled = assembled_of(one)
    assert assembled.lost == ((0, 1),)
    starts = with_lost(one, assembled).starts
    expected = starts_at(one.pace.order, (0, 1))
    assert tuple((start.arm, start.number) for start in starts) == expected
    assert all(start.outside and not start.claimed for start in starts)


def test_the_kind_of_an_agent_is_what_decides_bits_and_no_device_of_its_own() -> None:
    facts = {"gpu0.name": "NVIDIA H100", "driver": "580.65", "gpu0.uuid": "GPU-1", "torch": "2.9"}
    kind = left(facts).agent()
    assert kind.startswith("NVIDIA H100, driver 580.65 (")
    assert left({**facts, "gpu0.uuid": "GPU-2"}).agent() == kind
    others = [{**facts, "torch": "2.8"}, {**facts, "driver": "570.1"}, {"cpu.model": "EPYC"}]
    assert len({kind, *(left(each).agent() for each in others)}) == 4
    assert left({"gpu0.name": "NVIDIA H100"}, {"driver": "cannot be read"}).agent() != kind


def test_agents_whose_devices_cannot_be_read_are_each_of_a_kind_of_their_own() -> None:
    unread = {"gpu0.name": "the driver does not list it"}
    assert left({}, unread, "h1").agent() != left({}, unread, "h2").agent()
    assert left({}, unread, "h1").agent() == left({}, unread, "h1").agent()
    assert left({}, {"model": "none named"}, "h1").agent() == left({}, {"model": "x"}, "h2").agent()


@pytest.mark.parametrize(
    "body", [b"", b"{}\n", b'{"arms":{},"starts":5,"samples":0}\nabc', b"\xff\n"]
)
def test_a_body_of_another_form_is_no_evidence(body: bytes) -> None:
    with pytest.raises(NotEvidenceError):
        PairEvidence.read(Evidence(origin=ORIGIN, body=body))


def test_what_belongs_to_one_machine_is_refused() -> None:
    for changes in ({"devices": ("0",)}, {"archive": "baselines"}):
        with pytest.raises(UsageError, match="belongs to one machine"):
            settings_of(CorrectnessSettings(**changes), {})
    given = settings_of(CorrectnessSettings(seed=3), {})
    assert (given.seed, given.localise) == (3, False)


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FLAKY, Verdict.INCONCLUSIVE])
def test_lost_evidence_is_never_agreement(verdict: Verdict) -> None:
    decision = Decision(verdict=verdict, reason="so", settle="more", risk="some")
    assert without_lost(decision, ["A2 and B2"]).verdict is Verdict.INCONCLUSIVE
    assert without_lost(decision, []) == replace(decision, settle=None)
    # A regression stands without a lost pair.
    red = Decision(verdict=Verdict.REGRESSION, reason="so")
    assert without_lost(red, ["A2 and B2"]) == red


def test_evidence_of_jobs_leads_to_the_verdict_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # The simulation sets it for its own process.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    rows = list(import_module("fan_out").compared(range(30)))
    assert all(jobs is same for jobs, same, *_ in rows)
    assert len({jobs for jobs, *_ in rows}) > 2
