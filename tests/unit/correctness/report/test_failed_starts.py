# SPDX-License-Identifier: Apache-2.0
"""Why the starts of an arm failed: the headline of a verdict that rests on no answers."""

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.report.failed_starts import remedy_of, with_cause
from ci_doctor.model.service import FailureKind
from ci_doctor.model.verdict import Verdict
from tests.support.diagnoses import a_cause
from tests.unit.correctness.experiments import DEATH, decided, experiment, result

NAMED = replace(DEATH, cause=a_cause())
TAKEN = replace(DEATH, kind=FailureKind.OUTSIDE, log=None, message="port 8000 is owned by nginx")


def test_the_cause_stands_first_and_without_the_name_of_its_process() -> None:
    made = experiment(result("A1", "- -", failure=DEATH), result("A2", "- -", failure=NAMED))

    decision = with_cause(decided(made), made)

    assert decision.verdict is Verdict.FAILED
    assert decision.reason == (
        "code bug: ValueError: 40 heads for 3 GPUs; the baseline failed in every start"
    )


@pytest.mark.parametrize(
    "failure",
    [
        DEATH,
        replace(NAMED, oom="its cgroup"),
        replace(NAMED, kind=FailureKind.NOT_READY),
        replace(DEATH, cause=a_cause(is_final=False)),
    ],
)
def test_without_a_cause_that_ended_it_the_end_itself_stands_first(failure: object) -> None:
    made = experiment(result("A1", "- -", failure=failure))

    assert with_cause(decided(made), made).reason.startswith(DEATH.message)


def test_what_the_machine_shows_stands_first() -> None:
    made = experiment(result("A1", "- -", failure=TAKEN, outside=True))

    decision = with_cause(decided(made), made)

    assert decision.verdict is Verdict.INFRA
    assert decision.reason.startswith("port 8000 is owned by nginx; the baseline")


def test_the_remedy_is_the_causes_own_and_promises_no_cure_by_a_retry() -> None:
    assert remedy_of(NAMED) == (
        "Begin at the innermost frame in your own code. Another run is useless: it fails again."
    )
    assert remedy_of(DEATH) == "less +7 /reports/logs/B1/vllm-1.log"
