# SPDX-License-Identifier: Apache-2.0
"""A retry must never hide a regression: which failed command gets another status, and which one."""

from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnd
from ci_doctor.diagnosis.diagnosis import outcome_of
from ci_doctor.finished_job import FailedCommand, decide
from ci_doctor.model.cause import Cause, FailureClass
from ci_doctor.model.facts.diagnose import DiagnoseFacts
from ci_doctor.model.outcome import EXIT_CODES, Report, Verdict
from tests.support.builders import a_report
from tests.support.diagnoses import a_cause, a_diagnosis

CODES = {verdict.value: int(code) for verdict, code in EXIT_CODES.items()}


def a_root_cause(**changes: Any) -> Cause:
    facts = outcome_of(a_diagnosis(a_cause(**changes))).facts
    assert isinstance(facts, DiagnoseFacts)
    assert facts.root_cause is not None
    return facts.root_cause


DISK = a_root_cause(class_=FailureClass.DISK, is_outside=True)
TOLERATED_DISK = a_root_cause(class_=FailureClass.DISK, is_outside=True, is_final=False)
UNPROVEN_DISK = a_root_cause(class_=FailureClass.DISK)
ASSERTION = a_root_cause(class_=FailureClass.TEST_ASSERTION)
PERHAPS_ASSERTION = a_root_cause(class_=FailureClass.TEST_ASSERTION, confidence=0.6)
LAST_WORDS = a_root_cause(class_=FailureClass.CODE_BUG, rule="generic/last-output")
CUDA = a_root_cause(class_=FailureClass.CUDA_ERROR)
OWN_RULE_OUTSIDE = a_root_cause(class_=FailureClass.CONFIGURATION, is_outside=True)


def a_run(exit_code: int, own_code: int | None) -> Report:
    """`ci-doctor run --diagnose`, which judges nothing."""
    return a_report(
        None, command="run", error=None, exit_code=exit_code, facts={"exit_code": own_code}
    )


def decided(
    status: int, *causes: Cause, reports: tuple[Report, ...] = (), **changes: Any
) -> int | None:
    end = JobEnd(has_run=True, failures=(status,), command_status=status)
    failed = FailedCommand(
        end=end, reports=reports, causes=causes, is_named=bool(causes), codes=CODES
    )
    decision = decide(replace(failed, **changes))
    assert decision.reason
    return decision.status


@pytest.mark.parametrize(
    ("status", "causes", "expected"),
    [
        (1, [DISK], 75),
        (255, [DISK], 75),
        (139, [DISK], 75),
        (75, [DISK], None),
        # Another run cures nothing, or nobody knows.
        (1, [], None),
        (1, [ASSERTION], None),
        (1, [CUDA], None),
        (1, [TOLERATED_DISK], None),
        (1, [UNPROVEN_DISK], None),
        # Two diagnoses of one job that do not agree.
        (1, [DISK, ASSERTION], None),
        (1, [ASSERTION, DISK], None),
        (1, [DISK, CUDA], None),
        # What a pipeline would retry or let pass, though it is sure to be the change.
        (75, [ASSERTION], 1),
        (85, [ASSERTION], 1),
        (75, [DISK, ASSERTION], 1),
        (75, [PERHAPS_ASSERTION], None),
        (75, [OWN_RULE_OUTSIDE], None),
        (75, [CUDA], None),
        # The command may have chosen 75 itself, and printed nothing that a rule knows.
        (75, [LAST_WORDS], None),
        (85, [LAST_WORDS], None),
        (75, [], None),
        # A signal or a time limit from outside, which no line explains.
        (-1, [DISK], None),
        (137, [DISK], None),
        (143, [DISK], None),
        (124, [DISK], None),
        (0, [DISK], None),
    ],
)
def test_the_status_follows_the_cause_only_where_nothing_speaks_against_it(
    status: int, causes: list[Cause], expected: int | None
) -> None:
    assert decided(status, *causes) == expected


@pytest.mark.parametrize(
    ("report", "status", "expected"),
    [
        (a_report(Verdict.REGRESSION), 1, None),
        (a_report(Verdict.FAILED), 1, None),
        (a_report(Verdict.INCONCLUSIVE), 86, None),
        # Another status than this report's: make(1) ends with 2 for every failed recipe.
        (a_report(Verdict.PASS), 1, 75),
        (a_report(Verdict.FLAKY), 1, 75),
        (a_report(Verdict.INFRA), 2, 75),
        (a_report(Verdict.REGRESSION), 2, None),
        (a_report(Verdict.FAILED), 3, None),
        (a_report(Verdict.NONDETERMINISTIC), 2, None),
        (a_report(Verdict.INCONCLUSIVE), 2, None),
        (a_report(Verdict.VOID), 2, None),
        (a_report(None), 2, None),
        # It hands on the status of its command, and says nothing of it.
        (a_run(1, 1), 1, 75),
        (a_report(None, command="diagnose", error=None, exit_code=1), 1, 75),
    ],
)
def test_a_report_that_explains_the_status_stands_above_a_log(
    report: Report, status: int, expected: int | None
) -> None:
    assert decided(status, DISK, reports=(report,)) == expected


@pytest.mark.parametrize(
    "report",
    [
        a_report(Verdict.INFRA),
        # `run --exit-code-by-class` has chosen 75 for a command that ended with 1.
        a_run(75, 1),
    ],
)
def test_a_code_that_ci_doctor_chose_itself_stays(report: Report) -> None:
    assert decided(75, ASSERTION, reports=(report,)) is None


@pytest.mark.parametrize("flag", ["is_cancelled", "is_timed_out"])
def test_a_job_that_was_ended_from_outside_keeps_its_status(flag: str) -> None:
    end = JobEnd(has_run=True, failures=(1,), command_status=1, **{flag: True})

    assert decided(1, DISK, end=end) is None


def test_a_diagnosis_of_other_logs_that_names_nothing_changes_nothing() -> None:
    assert decided(1, DISK, is_named=False) is None


@pytest.mark.parametrize("code", [0, 125, 256, 300, -1])
def test_a_code_that_no_job_can_end_with_is_never_given(code: int) -> None:
    assert decided(1, DISK, codes={**CODES, "infra": code}) is None


def test_a_repository_has_its_own_codes() -> None:
    codes = {**CODES, "infra": 255, "failed": 3}

    assert decided(1, DISK, codes=codes) == 255
    assert decided(255, ASSERTION, codes=codes) == 3


def test_the_reason_names_the_cause_that_decided() -> None:
    end = JobEnd(has_run=True, failures=(75,), command_status=75)
    failed = FailedCommand(
        end=end, reports=(), causes=[ASSERTION, CUDA], is_named=True, codes=CODES
    )

    assert decide(failed).reason == (
        "75 is retried, and that could hide the cause (test assertion, server.log:10)"
    )
