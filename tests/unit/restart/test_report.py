# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs, to_builtins

from ci_doctor.model.facts.launch import FailureKind, NamedProcess, ServiceFailure
from ci_doctor.model.facts.restart_check import (
    ConditionResult,
    Counts,
    DifferentAnswer,
    Moment,
    Observation,
    Phase,
    Released,
    RestartEnding,
    Terms,
)
from ci_doctor.model.outcome import CaseOutcome, ErrorKind, Verdict
from ci_doctor.restart import report
from ci_doctor.restart.promises import State
from ci_doctor.restart.release import command_of
from ci_doctor.restart.report import conclude, findings, judge
from ci_doctor.restart.rules import RULES
from ci_doctor.system.processes.process_table import look_up
from tests.support.tables import lines_of
from tests.unit.restart.observations import GOOD, PHASES, TERMS, seen


def phases(**changes: Counts) -> dict[Phase, Counts]:
    return {**PHASES, **{Phase[name.upper()]: counts for name, counts in changes.items()}}


ENGINE = NamedProcess(pid=9, name="engine")
DIFFERENT = DifferentAnswer(id="r1", phase=Phase.AFTER, before="a", after="b")
UNMET = ConditionResult(label="/x", after_s=None, problem="no")


def released(**fields: Any) -> Observation:
    """A restart of whose worker no more than this was seen to be released."""
    return seen(released=Released(port=8000, **fields))


def failure(service: str, kind: FailureKind = FailureKind.DIED) -> ServiceFailure:
    return ServiceFailure(kind=kind, service=service, message=f"{service} died", duration_s=1.0)


def broken(observation: Observation, terms: Terms = TERMS) -> list[str]:
    promises = judge(observation, terms)
    conclusion = conclude(observation, promises, terms)
    found = [
        each.rule
        for each in findings(observation, promises, conclusion, terms)
        if each.severity == "error"
    ]
    assert found == [each.rule.id for each in promises if each.state is State.BROKEN]
    assert (conclusion.verdict is Verdict.FAILED) is bool(found)
    return [rule.removeprefix("restart-check/") for rule in found]


def verdict(observation: Observation) -> Verdict | None:
    return conclude(observation, judge(observation, TERMS), TERMS).verdict


def test_a_restart_that_keeps_every_promise_passes() -> None:
    promises = judge(GOOD, TERMS)
    assert verdict(GOOD) is Verdict.PASS
    assert {promise.state for promise in promises} == {State.KEPT}
    assert all(promise.rule in RULES for promise in promises)
    assert len({promise.rule.id for promise in promises}) == len(promises), "a rule of its own each"


@pytest.mark.parametrize(
    ("observation", "rule"),
    [
        (seen(phases=phases(kill=Counts(ok=2, hung=1))), "hung-requests"),
        (seen(phases=phases(outage=Counts(hung=1))), "hung-requests"),
        (seen(phases=phases(recovery=Counts(hung=1))), "hung-requests"),
        (seen(phases=phases(after=Counts(ok=7, hung=1, rate=7.0))), "hung-requests"),
        (released(port_owner="x", tree_s=0.1, memory_s=0.1), "port-not-released"),
        (released(port_s=0.1, processes=(ENGINE,)), "tree-not-released"),
        (seen(refused=True), "tree-not-released"),
        (released(port_s=0.1, tree_s=0.1, memory_left=("/dev/shm/x",)), "memory-not-released"),
        (seen(failures=(failure("router"),), phases=phases(after=Counts())), "other-died"),
        (seen(failures=(failure("worker"),)), "not-recovered"),
        # A cause outside is no excuse after the kill.
        (seen(failures=(failure("worker", FailureKind.OUTSIDE),)), "not-recovered"),
        (seen(ready_s=None, recovered_s=None, not_ready="HTTP status 503"), "not-recovered"),
        (seen(recovered_s=None, conditions=(UNMET,)), "not-recovered"),
        (seen(no_longer_ready="worker is not ready any more: refused"), "not-recovered"),
        (seen(phases=phases(after=Counts(ok=7, failed=1, rate=7.0))), "lost-after"),
        # Requests that fail are not told twice, as slowness too.
        (seen(phases=phases(after=Counts(ok=1, failed=7, rate=1.0))), "lost-after"),
        (seen(phases=phases(after=Counts(ok=8, rate=6.3))), "slower"),
        # Also without its waits for a CPU.
        (seen(phases=phases(after=Counts(ok=8, rate=3.0, free_rate=6.3))), "slower"),
        (seen(different=(DIFFERENT,), different_count=1), "different-outputs"),
    ],
)
def test_each_broken_promise_is_its_own_finding_and_a_failure(
    observation: Observation, rule: str
) -> None:
    assert broken(observation) == [rule]


def test_a_throughput_at_the_threshold_is_kept_and_none_is_asked_with_0() -> None:
    slow = seen(phases=phases(after=Counts(ok=8, rate=6.4)))
    assert broken(slow) == []
    slower = seen(phases=phases(after=Counts(ok=8, rate=0.1)))
    assert broken(slower, structs.replace(TERMS, throughput=0.0)) == []


def test_what_is_slower_only_by_waits_for_a_cpu_is_untested_and_a_warning() -> None:
    busy = seen(phases=phases(after=Counts(ok=8, rate=3.0, free_rate=7.0)))
    promises = judge(busy, TERMS)
    slower = next(each for each in promises if each.rule.id == "restart-check/slower")

    assert slower.state is State.UNTESTED
    assert "on a busy machine" in slower.message
    conclusion = conclude(busy, promises, TERMS)
    rules = [each.rule for each in findings(busy, promises, conclusion, TERMS)]
    assert rules == ["restart-check/busy-machine"]


def test_hung_requests_of_the_baseline_are_no_fault_of_the_restart() -> None:
    observation = Observation(requests=4, phases={Phase.BASELINE: Counts(ok=3, hung=1)})
    assert verdict(observation) is Verdict.VOID
    assert observation.hung == 0


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        (Observation(requests=4), Verdict.VOID),
        (Observation(requests=4, phases={Phase.BASELINE: Counts(failed=4)}), Verdict.VOID),
        (Observation(requests=4, phases={Phase.BASELINE: Counts(ok=3, failed=1)}), Verdict.VOID),
        (Observation(requests=4, unready_before=(UNMET,)), Verdict.VOID),
        (Observation(requests=4, failures=(failure("router"),)), Verdict.FAILED),
        (
            Observation(requests=4, failures=(failure("router", FailureKind.OUTSIDE),)),
            Verdict.INFRA,
        ),
        (Observation(requests=4, ending=RestartEnding.BUDGET), Verdict.INCONCLUSIVE),
        (seen(recovered_s=None, ending=RestartEnding.BUDGET), Verdict.INCONCLUSIVE),
        (
            seen(phases=phases(baseline=Counts(ok=8, empty=8), after=Counts(ok=8, empty=8))),
            Verdict.VOID,
        ),
        (seen(unstable=("r0", "r1", "r2", "r3")), Verdict.VOID),
        (seen(unstable=("r0",)), Verdict.PASS),
    ],
)
def test_evidence_that_is_missing_is_never_a_pass(
    observation: Observation, expected: Verdict
) -> None:
    assert verdict(observation) is expected


def test_a_promise_broken_before_the_budget_ended_stays_broken() -> None:
    hung = seen(recovered_s=None, ending=RestartEnding.BUDGET, phases=phases(outage=Counts(hung=3)))
    assert verdict(hung) is Verdict.FAILED


def test_where_nothing_was_killed_no_case_passes() -> None:
    observation = Observation(requests=4, phases={Phase.BASELINE: Counts(failed=4)})
    cases = report.cases(judge(observation, TERMS), reached=False, reason="nothing was answered")
    assert {(case.outcome.value, case.message) for case in cases} == {
        ("error", "nothing was answered")
    }


def test_the_tables_hold_values_for_each_phase_and_the_restart_and_fit_a_terminal() -> None:
    requests, restart = map(lines_of, report.tables(GOOD, TERMS))
    assert requests[0].split() == ["ok", "failed", "hung", "time", "ok/s"]
    assert [line.split()[0] for line in requests[1:]] == [phase.value for phase in Phase]
    assert requests[4].split() == ["outage", "0", "20", "0", "5.0", "s", "0"]
    assert len(requests) + len(restart) <= 17
    assert max(map(len, (*requests, *restart))) <= 78


def test_an_outcome_holds_the_verdict_the_cases_and_typed_facts() -> None:
    cwd = Path("/work")
    of = report.outcome_of(GOOD, TERMS, (), directory=cwd / "out", cwd=cwd)
    assert (of.verdict, of.error, of.findings) == (Verdict.PASS, None, ())
    assert {case.outcome for case in of.cases} == {CaseOutcome.PASSED}
    facts = to_builtins(of.facts)
    assert (facts["version"], facts["requests"], facts["killed_at"]) == (1, 4, 2)
    assert facts["phases"]["after"]["ok"] == 8
    assert set(facts["promises"].values()) == {"kept"}
    assert facts["down_s"] == 5.4


@pytest.mark.parametrize(
    ("ending", "kind"),
    [(RestartEnding.SIGINT, ErrorKind.SIGINT), (RestartEnding.SIGHUP, ErrorKind.SIGHUP)],
)
def test_a_signal_leaves_no_verdict(ending: RestartEnding, kind: ErrorKind) -> None:
    interrupted = seen(ending=ending)
    of = report.outcome_of(interrupted, TERMS, (), directory=Path("/out"), cwd=Path("/"))
    assert of.verdict is None
    assert of.error is not None
    assert of.error.kind is kind
    assert of.error.message == f"interrupted by {ending}; every process was stopped"


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (Moment.UNDER_LOAD, "worker by SIGKILL at 2 of 4 requests"),
        (Moment.SAVING, "worker by SIGKILL after 2 requests, 0.2 s after `saving` held"),
        (
            Moment.STOPPING,
            "worker by SIGKILL after 2 requests, 0.2 s into a stop that took 0.4 s before (SIGTERM)",
        ),
        (
            Moment.BEFORE_READY,
            "worker by SIGKILL after 2 requests, 0.2 s into a start that took 3.0 s before",
        ),
    ],
)
def test_the_story_tells_in_what_the_signal_came(moment: Moment, said: str) -> None:
    observation = seen(into_s=0.2, stop_s=0.4, start_s=3.0)
    terms = structs.replace(TERMS, moment=moment)
    table = next(each for each in report.tables(observation, terms) if each.title == "Restart")
    assert table.rows[0].cells[0].value == said


def test_a_client_that_says_nothing_has_its_exit_code_as_promise() -> None:
    silent = {phase: structs.replace(each, empty=each.ok) for phase, each in PHASES.items()}
    observation = seen(phases=silent)
    terms = structs.replace(TERMS, same_outputs=False)
    assert conclude(observation, (), terms).verdict is Verdict.VOID
    by_command = structs.replace(terms, by_command=True)
    assert conclude(observation, (), by_command).verdict is Verdict.PASS


def test_a_title_in_place_of_the_arguments_is_shown_alone() -> None:
    program = "import sys; print(flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", program, "", ""]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the kernel shows the arguments only after execve(2)
        kin = look_up(process.pid)
        assert kin is not None
        shown = command_of(kin)
        process.kill()
    assert shown.endswith(f"-c '{program}'")
