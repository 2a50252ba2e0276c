# SPDX-License-Identifier: Apache-2.0
"""Delays, runs with them, and what they and the answer of a probe show."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.imports.confirm import HeldRun, Race, confirm, races, time_limit_s
from ci_doctor.imports.crossings import CYCLE, SUBMODULE, HazardKind, Hold
from ci_doctor.imports.investigate import RaceRequest, run
from ci_doctor.imports.one_module import FAILED, REPLACED
from ci_doctor.imports.probe import probe_outcome
from ci_doctor.imports.trace import HeldImport, Missing, RecordedProcess, RecordedThread, Wait
from ci_doctor.model.facts.import_race import (
    Closeness,
    ImportProbeFacts,
    ImportRaceFacts,
    Site,
    Standing,
)
from ci_doctor.model.outcome import Verdict
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.imports.hazards_of import MET, NOT_MET, RUN, a_hazard, a_held_run, a_process, a_run


def held(*, came: bool) -> HeldImport:
    return HeldImport(t=1, n=0, k=1, name="lazy", limit_ns=2, met=came)


@pytest.mark.parametrize("kind", [REPLACED, FAILED])
def test_one_module_is_held_while_its_code_runs(kind: HazardKind) -> None:
    (hold,) = kind.delays(a_hazard(kind, "a.b"))

    assert hold.text() == "exec a.b - 2"


@pytest.mark.parametrize("kind", [CYCLE, SUBMODULE])
def test_two_modules_are_held_together_and_then_each_of_them_late(kind: HazardKind) -> None:
    tried = [hold.text() for hold in kind.delays(a_hazard(kind, "a", "m", "b", pair=("a", "b")))]

    assert tried == ["together a b 2", "late a b 2", "late b a 2"]


@pytest.mark.parametrize(
    ("margin_ns", "limit_s"),
    [
        (None, 2.0),
        (0, 2.0),
        (-100_000_000, 2.0),
        (3_000_000_000, 7.0),
        (-3_000_000_000, 7.0),
        (10**12, 30.0),
    ],
)
def test_a_hold_lasts_twice_the_gap_and_a_second_within_bounds(
    margin_ns: int | None, limit_s: float
) -> None:
    assert {hold.limit_s for hold in REPLACED.delays(a_hazard(margin_ns=margin_ns))} == {limit_s}


def test_whether_a_delay_was_made_and_another_thread_came() -> None:
    runs = [
        a_held_run(a_process()),
        a_held_run(a_process(held(came=False))),
        a_held_run(a_process(), a_process(held(came=True))),
    ]
    assert [(run.was_held, run.met) for run in runs] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_hazards_that_the_same_delays_decide_are_one_candidate_with_the_worst_first() -> None:
    near = a_hazard(closeness=Closeness.NEAR, pid=2)
    hazards = [
        a_hazard(),
        a_hazard(CYCLE, "a", "b"),
        near,
        a_hazard(CYCLE, "a", "c"),
    ]

    groups = races(hazards)

    assert [group.worst.modules for group in groups] == [("lazy",), ("a", "b"), ("a", "c")]
    assert groups[0].hazards == (near, hazards[0])
    assert not any(group.has_fired for group in groups)
    assert races([a_hazard(closeness=Closeness.FIRED)])[0].has_fired


def received_wrong(*names: str) -> RecordedProcess:
    return a_process(*map(_wait, names))


def missed(*names: str) -> RecordedProcess:
    site = Site(file="app.py", line=1, module="__main__")
    reads = [Missing(t=1, n=0, k=1, name=name, attribute="x", site=site) for name in names]
    thread = RecordedThread(number=0, name="main")
    return a_process(*map(_wait, names), *reads, threads={0: thread})


def _wait(name: str) -> Wait:
    return Wait(t=1, n=0, k=1, name=name, owner=1, waited_ns=5, outcome="replaced")


def confirmed(run: Callable[[int, Hold], HeldRun], *names: str) -> list[Race]:
    """The races of these modules, after `run` was made for them."""
    chosen = [Race(hazards=(a_hazard(REPLACED, name),)) for name in names]
    confirm(chosen, run, lambda _: None)
    for race in chosen:
        race.judge(confirming=True, command_failed=False)
    return chosen


def test_a_race_is_tried_until_it_fires() -> None:
    def run(number: int, hold: Hold) -> HeldRun:
        return a_held_run(missed("lazy") if number == 2 else NOT_MET, number=number)

    (race,) = confirmed(run, "lazy")

    assert [each.number for each in race.runs] == [1, 2]
    assert (race.fired_in, race.standing) == (race.runs[1], Standing.CONFIRMED)


def test_what_fired_in_anothers_run_needs_none_of_its_own() -> None:
    def run(number: int, hold: Hold) -> HeldRun:
        return a_held_run(missed("lazy", "other"), number=number)

    first, second = confirmed(run, "lazy", "other")

    assert (len(first.runs), len(second.runs)) == (1, 0)
    assert second.fired_in is first.fired_in


def test_a_module_that_was_handed_out_without_harm_is_settled_by_one_run_of_each_delay() -> None:
    def run(number: int, hold: Hold) -> HeldRun:
        return replace(a_held_run(received_wrong("lazy"), number=number), hold=hold)

    (race,) = confirmed(run, "lazy")

    assert len(race.runs) == 1
    assert race.handed_out_in == race.runs
    assert (race.fired_in, race.standing) == (None, Standing.HARMLESS)


@pytest.mark.parametrize(
    ("wrong", "process", "has_fired"),
    [
        ({}, received_wrong("lazy"), False),
        ({"ended_as_recorded": False}, received_wrong("lazy"), True),
        ({"newly_failed": ("plugin",)}, received_wrong("lazy"), True),
        ({"ended_as_recorded": False}, NOT_MET, False),
    ],
)
def test_a_module_that_was_handed_out_fired_if_the_run_went_wrong_in_another_way(
    wrong: dict[str, Any], process: RecordedProcess, has_fired: bool
) -> None:
    race = Race(hazards=(a_hazard(),))

    race.take(replace(a_held_run(process), **wrong), is_own=True)

    assert (race.fired_in is not None) is has_fired


def test_no_run_is_made_after_a_signal() -> None:
    def run(number: int, hold: Hold) -> HeldRun:
        return a_held_run(number=number, received=signal.SIGTERM)

    first, second = confirmed(run, "lazy", "other")

    assert (len(first.runs), len(second.runs)) == (1, 0)
    assert {first.standing, second.standing} == {Standing.OPEN}


def test_a_run_with_a_delay_has_the_time_of_its_delays_in_every_process() -> None:
    hold = Hold(mode="exec", x="lazy", limit_s=3.0)

    assert time_limit_s(a_run(a_process(), a_process(), duration_s=4.0), hold, None) == 60 + 20 + 12
    assert time_limit_s(a_run(a_process()), hold, 10.0) == 10 + 6


UNDECIDED = a_held_run(a_process())


@pytest.mark.parametrize(
    ("closeness", "known", "standing"),
    [
        (Closeness.NEAR, {}, Standing.OPEN),
        (Closeness.NEAR, {"confirming": False}, Standing.POSSIBLE),
        (Closeness.FIRED, {}, Standing.FIRED),
        (Closeness.FIRED, {"confirming": False}, Standing.FIRED),
        (Closeness.HANDED_OUT, {"confirming": False, "command_failed": True}, Standing.FIRED),
        (Closeness.LATENT, {"runs": (RUN,), "fired_in": RUN}, Standing.CONFIRMED),
        (Closeness.LATENT, {"runs": (RUN,)}, Standing.SAFE),
        (Closeness.LATENT, {"runs": (UNDECIDED,)}, Standing.OPEN),
        # It came to no end, although another thread came.
        (Closeness.LATENT, {"runs": (a_held_run(MET, timed_out=True),)}, Standing.OPEN),
        (Closeness.LATENT, {"runs": (RUN,), "handed_out_in": (RUN,)}, Standing.HARMLESS),
        (Closeness.HANDED_OUT, {"runs": (RUN,)}, Standing.HARMLESS),
        (Closeness.HANDED_OUT, {"runs": (UNDECIDED,)}, Standing.OPEN),
    ],
)
def test_the_recorded_run_and_those_with_a_delay_decide(
    closeness: Closeness, known: dict[str, Any], standing: Standing
) -> None:
    given = {"confirming": True, "command_failed": False}
    given |= {name: known.pop(name) for name in list(known) if name in given}
    race = Race(hazards=(a_hazard(closeness=closeness),), **known)

    race.judge(**given)

    assert race.standing is standing


NOTHING = Redactor(())


def a_request(*command: str) -> RaceRequest:
    # Our own stdout is pytest's file.
    return RaceRequest(command=command, output=2)


def test_a_recorded_command_has_an_outcome(tmp_path: Path) -> None:
    outcome = run(
        a_request(sys.executable, "-c", "import json"), directory=tmp_path, redactor=NOTHING
    )

    assert outcome.verdict is Verdict.PASS
    assert outcome.summary.startswith("no import race in 1 process (")
    assert isinstance(outcome.facts, ImportRaceFacts)
    assert [process.argv[1:] for process in outcome.facts.processes] == [("-c", "import json")]


@pytest.mark.parametrize("customized", [False, True])
def test_a_command_that_imports_nothing_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, customized: bool
) -> None:
    """Debian's Python imports a sitecustomize whenever it starts."""
    if customized:
        (tmp_path / "site").mkdir()
        (tmp_path / "site/sitecustomize.py").touch()
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    outcome = run(a_request(sys.executable, "-c", "print(1)"), directory=tmp_path, redactor=NOTHING)

    assert (outcome.verdict, outcome.summary) == (
        Verdict.VOID,
        "no module was recorded in 1 process, so nothing could race",
    )


def test_a_command_that_does_not_exist_has_the_status_of_a_shell(tmp_path: Path) -> None:
    outcome = run(a_request(str(tmp_path / "nowhere")), directory=None, redactor=NOTHING)

    assert (outcome.verdict, outcome.command_status) == (None, 127)
    assert outcome.error is not None


def a_result(**fields: Any) -> ImportProbeFacts:
    known = {
        "module": "lazy",
        "attribute": "Thing",
        "python": "/usr/bin/python3",
        "exposed": False,
        "error": None,
        "loaded_before": False,
        "replaced": ("lazy",),
        "immune": False,
        "rule": None,
    }
    return ImportProbeFacts(**{**known, **fields})


@pytest.mark.parametrize(
    ("result", "verdict", "part", "rules"),
    [
        (
            a_result(exposed=True, error="ImportError: no"),
            Verdict.FAILED,
            "lazy:Thing is exposed",
            ["import-race/self-replacing"],
        ),
        (a_result(), Verdict.PASS, "Thing is the same in what was there before", []),
        (a_result(replaced=()), Verdict.PASS, "does not replace itself", []),
        (a_result(loaded_before=True), Verdict.PASS, "is loaded at every start", []),
        (
            a_result(immune=True),
            Verdict.PASS,
            "looks again after waiting",
            [],
        ),
        (
            a_result(exposed=None, error="ModuleNotFoundError: lazy"),
            Verdict.VOID,
            "cannot be imported, so nothing is known: ModuleNotFoundError",
            [],
        ),
    ],
)
def test_each_answer_has_its_verdict_reason_and_finding(
    result: ImportProbeFacts, verdict: Verdict, part: str, rules: list[str]
) -> None:
    outcome = probe_outcome(result)

    assert outcome.verdict is verdict
    assert part in outcome.summary
    assert [finding.rule for finding in outcome.findings] == rules


def test_the_rule_to_preload_is_ready_to_paste() -> None:
    outcome = probe_outcome(a_result(exposed=True, rule="threading=lazy:Thing"))

    assert isinstance(outcome.facts, ImportProbeFacts)
    assert outcome.facts.rule == "threading=lazy:Thing"
    assert "--preload threading=lazy:Thing -- " in (outcome.findings[0].remedy or "")


def test_a_rule_that_was_not_seen_to_win_is_not_offered() -> None:
    outcome = probe_outcome(a_result(exposed=True))

    (finding,) = outcome.findings
    assert finding.remedy is not None
    assert "no preload rule with that trigger can fire" in finding.remedy
    assert "--preload" not in finding.remedy
