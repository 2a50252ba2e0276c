# SPDX-License-Identifier: Apache-2.0
"""Tests of the command that could not run at all."""

# SPDX-License-Identifier: Apache-2.0
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
    ],
)
def test_other_ends_of_a_baseline_are_no_error_of_usage(failure: ServiceFailure) -> None:
    assert said(result("A1", failure), result("A2", failure)) is None


def test_a_sudden_end_without_a_word_must_repeat_itself() -> None:
    assert said(result("A1", SILENT)) is None
    assert "exit code 2" in (said(result("A1", SILENT), result("A2", SILENT)) or "")
    assert said(result("A1", SILENT), result("A2", replace(SILENT, exit_code=3))) is None


def test_a_sudden_end_whose_log_names_a_cause_is_no_error_of_usage() -> None:
    explained = replace(SILENT, cause=a_cause())
    assert said(result("A1", explained), result("A2", explained)) is None


def test_a_baseline_that_has_worked_once_was_written_well() -> None:
    assert said(result("A1", None), result("A2", TYPO)) is None


def test_a_start_that_was_cut_short_proves_nothing() -> None:
    assert said(result("A1", TYPO, cut_short=True)) is None


def test_what_only_the_candidate_has_on_its_command_line_is_an_error_of_usage() -> None:
    plans = arms(candidate="serve --port 1 --typo")
    assert "of the candidate" in (said(result("A1", None), result("B1", TYPO), plans=plans) or "")


@pytest.mark.parametrize("candidate", ["serve --port 1 --typo", "serve --port 1 --typo --more"])
def test_what_runs_in_the_baseline_was_broken_by_the_change(candidate: str) -> None:
    plans = arms("serve --port 1 --typo", candidate)
    assert said(result("A1", None), result("B1", TYPO), plans=plans) is None


def test_a_file_that_each_arm_has_in_its_own_checkout_was_broken_by_the_change() -> None:
    missing = replace(SILENT, misuse="can't open file", misused="'/new/app/server.py'")
    plans = arms("python /old/app/server.py", "python /new/app/server.py")
    assert said(result("A1", None), result("B1", missing), plans=plans) is None


@pytest.mark.parametrize("join", [" ", "="])
def test_a_value_that_only_the_candidate_gives_is_an_error_of_usage(join: str) -> None:
    wrong = replace(SILENT, misuse="error: argument --dtype: invalid choice", misused="'hlaf'")
    plans = arms(f"serve --dtype{join}half", f"serve --dtype{join}hlaf")
    assert "of the candidate" in (said(result("A1", None), result("B1", wrong), plans=plans) or "")
    plans = arms(f"serve --dtype{join}hlaf", f"serve --dtype{join}hlaf --more")
    assert said(result("A1", None), result("B1", wrong), plans=plans) is None


def test_what_no_command_line_holds_may_be_the_change() -> None:
    assert said(result("A1", None), result("B1", TYPO)) is None
    assert said(result("A1", None), result("B1", SILENT), result("B2", SILENT)) is None
