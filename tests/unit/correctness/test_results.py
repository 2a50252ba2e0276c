# SPDX-License-Identifier: Apache-2.0
"""Tests of the command that could not run at all."""

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.results import StartResult, unusable
from ci_doctor.correctness.settings import Arm, ArmPlan
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.model.facts.launch import FailureKind, ServiceFailure
from ci_doctor.services.spec import ServiceSpec
from tests.support.diagnoses import a_cause

SILENT = ServiceFailure(
    kind=FailureKind.DIED, service="web", message="web died", exit_code=2, duration_s=0.2
)
TYPO = replace(SILENT, misuse="error: unrecognized arguments: --typo", misused="--typo")


def arms(baseline: str = "serve --port 1", candidate: str = "serve --port 1") -> dict[Arm, ArmPlan]:
    commands = {Arm.BASELINE: baseline, Arm.CANDIDATE: candidate}
    return {
        arm: ArmPlan(specs={"web": ServiceSpec(command=command)}, names=("web",))
        for arm, command in commands.items()
    }


def result(name: str, failure: ServiceFailure | None, **fields: bool) -> StartResult:
    arm = Arm.BASELINE if name[0] == "A" else Arm.CANDIDATE
    start = ArmStart(arm=arm, number=int(name[1:]), failed=failure is not None)
    made = StartResult(start=start, failure=failure, duration_s=1.0, digests={}, errors={})
    return replace(made, **fields)


def said(*results: StartResult, plans: dict[Arm, ArmPlan] | None = None) -> str | None:
    error = unusable(results, plans or arms())
    return error.message if error else None


def test_a_baseline_that_says_so_is_unusable_at_once() -> None:
    assert "--typo" in (said(result("A1", TYPO)) or "")
    assert "--typo" in (said(result("A0", TYPO, warm_up=True)) or "")


@pytest.mark.parametrize(
    "failure",
    [
        replace(SILENT, exit_code=1),
        replace(SILENT, duration_s=5.0),
        replace(SILENT, kind=FailureKind.OUTSIDE),
        replace(SILENT, kind=FailureKind.NOT_READY, exit_code=None),
        replace(TYPO, was_ready=True),
        replace(TYPO, kind=FailureKind.OUTSIDE),
        # Its log names a cause.
        replace(SILENT, cause=a_cause()),
    ],
)
def test_other_ends_of_a_baseline_are_no_error_of_usage(failure: ServiceFailure) -> None:
    assert said(result("A1", failure), result("A2", failure)) is None


def test_a_sudden_end_without_a_word_must_repeat_itself() -> None:
    assert said(result("A1", SILENT)) is None
    assert "exit code 2" in (said(result("A1", SILENT), result("A2", SILENT)) or "")
    assert said(result("A1", SILENT), result("A2", replace(SILENT, exit_code=3))) is None


def test_a_baseline_that_has_worked_once_was_written_well_and_one_cut_short_proves_nothing() -> (
    None
):
    assert said(result("A1", None), result("A2", TYPO)) is None
    assert said(result("A1", TYPO, cut_short=True)) is None


WRONG = replace(SILENT, misuse="error: argument --dtype: invalid choice", misused="'hlaf'")
MISSING = replace(SILENT, misuse="can't open file", misused="'/new/app/server.py'")


@pytest.mark.parametrize(
    ("failure", "baseline", "candidate", "is_misuse"),
    [
        (TYPO, "serve --port 1", "serve --port 1 --typo", True),
        (WRONG, "serve --dtype half", "serve --dtype hlaf", True),
        (WRONG, "serve --dtype=half", "serve --dtype=hlaf", True),
        # What runs in the baseline was broken by the change.
        (TYPO, "serve --port 1 --typo", "serve --port 1 --typo", False),
        (TYPO, "serve --port 1 --typo", "serve --port 1 --typo --more", False),
        (WRONG, "serve --dtype hlaf", "serve --dtype hlaf --more", False),
        (WRONG, "serve --dtype=hlaf", "serve --dtype=hlaf --more", False),
        # Each arm has the file in a checkout of its own.
        (MISSING, "python /old/app/server.py", "python /new/app/server.py", False),
    ],
)
def test_what_only_the_candidate_has_on_its_command_line_is_an_error_of_usage(
    failure: ServiceFailure, baseline: str, candidate: str, is_misuse: bool
) -> None:
    told = said(result("A1", None), result("B1", failure), plans=arms(baseline, candidate))
    assert ("of the candidate" in told) if told else not is_misuse
    assert (told is not None) is is_misuse


def test_what_no_command_line_holds_may_be_the_change() -> None:
    assert said(result("A1", None), result("B1", TYPO)) is None
    assert said(result("A1", None), result("B1", SILENT), result("B2", SILENT)) is None
