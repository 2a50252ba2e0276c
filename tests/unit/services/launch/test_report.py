# SPDX-License-Identifier: Apache-2.0
"""What a launch comes to."""

import errno
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from ci_doctor.model.outcome import CaseOutcome, Outcome
from ci_doctor.model.service import FailureKind, NamedProcess, ServiceFailure, StopResult
from ci_doctor.model.verdict import Verdict
from ci_doctor.services.launch.launched import ClientRun, Launched
from ci_doctor.services.launch.record import ServiceRun
from ci_doctor.services.launch.report import outcome_of
from ci_doctor.session.exit_policy import ExitPolicy, exit_code

OUT = Path("/work/out")
RUNS = (
    ServiceRun(
        name="kv", pid=5, log="/work/out/logs/kv-1.log", started_at=1.0, ready_s=0.5, ended_at=4.0
    ),
    ServiceRun(
        name="vllm",
        pid=6,
        log="/work/out/logs/vllm-1.log",
        started_at=1.5,
        ended_at=3.5,
        by_itself=True,
        exit_code=1,
    ),
)
FAILURE = ServiceFailure(
    kind=FailureKind.DIED,
    service="vllm",
    message="vllm died",
    log="/work/out/logs/vllm-1.log",
    duration_s=2.0,
)
WELL = ClientRun(words=("/usr/bin/pytest", "-x"), returncode=0, duration_s=3.2)


def launched(**changes: Any) -> Launched:
    return replace(
        Launched(services=RUNS, client=WELL, stopped=StopResult(duration_s=0.1)), **changes
    )


def outcome(**changes: Any) -> Outcome:
    return outcome_of(launched(**changes), directory=OUT, cwd=Path("/work"))


def code(of: Outcome, **codes: int) -> int:
    return exit_code(of, ExitPolicy(codes=codes))


def rules_of(of: Outcome) -> list[str]:
    return [finding.rule for finding in of.findings]


def test_a_client_that_ends_well_is_a_pass() -> None:
    of = outcome()
    assert (of.verdict, code(of), of.findings) == (Verdict.PASS, 0, ())
    assert of.summary == "pytest ended with exit code 0 after 3.2 s; kv and vllm lived until then"


@pytest.mark.parametrize(("returncode", "status"), [(3, 3), (75, 75), (-9, 137), (-15, 143)])
def test_the_clients_status_is_handed_on(returncode: int, status: int) -> None:
    of = outcome(client=replace(WELL, returncode=returncode))
    assert (of.verdict, code(of)) == (Verdict.FAILED, status)
    assert rules_of(of) == ["services/client-failed"]


def test_a_dead_service_is_the_cause_whatever_the_client_says() -> None:
    of = outcome(failure=FAILURE, client=replace(WELL, returncode=2))
    assert (of.verdict, code(of)) == (Verdict.FAILED, 1)
    assert of.summary == "the service vllm failed while pytest ran"
    assert rules_of(of) == ["services/died"]
    assert of.findings[0].evidence[0].file == "out/logs/vllm-1.log"
    assert [(case.name, case.outcome) for case in of.cases] == [
        ("kv", CaseOutcome.PASSED),
        ("vllm", CaseOutcome.FAILED),
        ("pytest", CaseOutcome.SKIPPED),
    ]
    assert [(each.name, each.ok, each.outcome, each.log) for each in of.attempts] == [
        ("kv", True, "ready after 0.5 s, stopped", "logs/kv-1.log"),
        ("vllm", False, "never ready, died: exit code 1", "logs/vllm-1.log"),
    ]


def test_a_cause_outside_the_change_may_be_retried_under_the_repositorys_own_code() -> None:
    failure = replace(FAILURE, kind=FailureKind.OUTSIDE)
    of = outcome(failure=failure, client=replace(WELL, duration_s=0.0))
    assert (of.verdict, code(of, infra=255)) == (Verdict.INFRA, 255)
    assert of.summary == "the service vllm failed, so pytest was not run"
    assert of.cases[1].outcome is CaseOutcome.ERROR


def test_without_a_client_a_death_stops_everything() -> None:
    assert "every service was stopped" in outcome(failure=FAILURE, client=None).summary


@pytest.mark.parametrize(
    ("received", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_a_signal_leaves_no_verdict(received: signal.Signals, status: int) -> None:
    of = outcome(received=received, client=None)
    assert (of.verdict, code(of)) == (None, status)
    assert of.error is not None
    assert of.error.message == f"interrupted by {received.name}; every process was stopped"


def test_what_outlived_the_stop_is_told() -> None:
    survivors = (NamedProcess(pid=9, name="d"),)
    of = outcome(received=signal.SIGINT, stopped=StopResult(survivors=survivors, duration_s=8))
    assert "could not stop d" in of.summary
    assert rules_of(of) == ["services/survivor"]


def test_what_had_no_time_to_end_is_not_blamed_for_it() -> None:
    killed = StopResult(killed=(NamedProcess(pid=9, name="d"),), duration_s=0.1)
    assert rules_of(outcome(stopped=killed)) == ["services/killed"]
    assert rules_of(outcome(stopped=killed, received=signal.SIGINT, hurried=True)) == []


def test_a_service_that_ends_with_a_good_client_is_worth_a_warning() -> None:
    of = outcome(late=FAILURE)
    assert (of.verdict, code(of)) == (Verdict.PASS, 0)
    assert of.summary.endswith("; vllm ended in the same moment")
    assert rules_of(of) == ["services/ended-with-client"]


@pytest.mark.parametrize(("number", "status"), [(errno.ENOENT, 127), (errno.ENOEXEC, 126)])
def test_a_client_that_cannot_be_run_after_all_ends_as_in_a_shell(number: int, status: int) -> None:
    of = outcome(client=replace(WELL, returncode=None, unable=number))
    assert (of.verdict, code(of), of.findings) == (None, status, ())


def test_an_end_that_nobody_knows_is_no_pass() -> None:
    of = outcome(client=replace(WELL, returncode=None))
    assert (of.verdict, code(of)) == (Verdict.FAILED, 70)


def test_the_facts_hold_what_the_report_rests_on() -> None:
    facts = to_builtins(outcome(failure=FAILURE).facts)
    assert facts["version"] == 1
    assert facts["services"]["kv"]["pid"] == 5
    assert facts["client"]["words"] == ("/usr/bin/pytest", "-x")
    assert (facts["cause"]["kind"], facts["cause"]["message"]) == ("died", "vllm died")
    assert (facts["received"], facts["stopped"]["duration_s"]) == (None, 0.1)
