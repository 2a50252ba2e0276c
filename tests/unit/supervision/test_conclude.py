# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec.structs import replace

from ci_doctor.diagnosis.diagnosis import Diagnosis
from ci_doctor.diagnosis.outcome import outcome_of
from ci_doctor.model.facts.diagnose import DiagnoseFacts
from ci_doctor.model.facts.setup_env import RunFacts, SetupEnvFacts
from ci_doctor.model.facts.supervised_run import SupervisedRunFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.verdict import Verdict
from ci_doctor.supervision.cause_of_failure import CauseOfFailure
from ci_doctor.supervision.conclude import Ended, conclude
from ci_doctor.supervision.request import SupervisionRequest
from ci_doctor.system.relay.relay import CommandEnd
from tests.support.builders import a_finding
from tests.support.diagnoses import a_cause

PREPARED = Outcome(
    verdict=Verdict.PASS,
    summary="prepared",
    facts=SetupEnvFacts(exports={"A": "1"}, changed=("A",), determinism=(), targets=()),
)
REQUEST = SupervisionRequest(
    command=("pytest", "-q"), environ={}, prepared=PREPARED, directory=None, log_limit=1
)
NAMED = outcome_of(
    Diagnosis(cause=a_cause(), best=None, excerpt=None, others=(), logs=("command.log",))
)


def ended(returncode: int, *, retry_helps: bool = False) -> Ended:
    assert isinstance(NAMED.facts, DiagnoseFacts)
    cause = CauseOfFailure(facts=NAMED.facts, findings=NAMED.findings, retry_helps=retry_helps)
    return Ended(end=CommandEnd(returncode=returncode), cause=cause)


@pytest.mark.parametrize(
    ("returncode", "status", "signal"), [(0, 0, None), (3, 3, None), (75, 75, None), (-9, 137, 9)]
)
@pytest.mark.parametrize("retry_helps", [True, False])
def test_the_status_is_the_commands_own(
    returncode: int, status: int, signal: int | None, retry_helps: bool
) -> None:
    supervised = conclude(REQUEST, ended(returncode, retry_helps=retry_helps))

    assert (supervised.outcome.command_status, supervised.signal) == (status, signal)


@pytest.mark.parametrize("returncode", [1, 255, -9])
def test_by_class_a_failure_that_another_run_helps_is_75(returncode: int) -> None:
    request = replace(REQUEST, retry_status=75)

    supervised = conclude(request, ended(returncode, retry_helps=True))

    assert (supervised.outcome.command_status, supervised.signal) == (75, None)


def test_by_class_nothing_else_is_75() -> None:
    request = replace(REQUEST, retry_status=75)

    assert conclude(request, ended(1)).outcome.command_status == 1
    assert conclude(request, ended(0, retry_helps=True)).outcome.command_status == 0
    killed = conclude(request, ended(-9))
    assert (killed.outcome.command_status, killed.signal) == (137, 9)


def test_a_diagnosis_judges_nothing() -> None:
    assert conclude(REQUEST, ended(1)).outcome.verdict is None


def test_the_facts_of_the_preparation_stay() -> None:
    prepared = replace(
        PREPARED,
        facts=RunFacts(exports={"A": "1"}, changed=(), determinism=(), targets=(), preload=("x",)),
    )

    facts = conclude(replace(REQUEST, prepared=prepared), ended(-15)).outcome.facts

    assert isinstance(facts, SupervisedRunFacts)
    assert (facts.exports, facts.preload) == ({"A": "1"}, ("x",))
    assert (facts.exit_code, facts.signal, facts.diagnosis) == (None, "SIGTERM", NAMED.facts)


def test_the_cause_is_the_first_finding() -> None:
    note = a_finding()

    request = replace(REQUEST, prepared=replace(PREPARED, findings=(note,)))

    assert conclude(request, ended(1)).outcome.findings == (*NAMED.findings, note)


def test_a_success_has_no_text_unless_output_was_lost() -> None:
    good = CommandEnd(returncode=0)
    lossy = CommandEnd(returncode=0, problems=("stdout cannot be written: gone",))

    assert conclude(REQUEST, Ended(end=good)).text == ""
    assert "stdout cannot be written" in conclude(REQUEST, Ended(end=lossy)).text
