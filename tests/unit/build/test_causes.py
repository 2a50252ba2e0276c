# SPDX-License-Identifier: Apache-2.0
"""What a cause has cost, and which attempts are one."""

from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.build.merge import BuildCause, causes_of, merge
from ci_doctor.model.cause import Cause
from ci_doctor.model.facts.build import JobRecord
from ci_doctor.model.outcome import Verdict
from tests.support.builds import ASSERTION, FULL_DISK, a_job, a_report_of, material_of

DISK: dict[str, Any] = {"verdict": "infra", "cause": FULL_DISK}
WRONG: dict[str, Any] = {"verdict": "failed", "cause": ASSERTION}


def causes(*records: JobRecord) -> tuple[BuildCause, ...]:
    return causes_of(merge(material_of(*records)).steps)


def test_what_nobody_knows_is_not_zero() -> None:
    (cause,) = causes(a_job(about={"gpus": ()}, ended_at=None, **DISK))

    assert (cause.facts.seconds, cause.facts.gpu_seconds) == (None, None)


def test_gpu_time_is_that_of_the_machines_that_are_known() -> None:
    (cause,) = causes(
        a_job("a", seconds=10, **DISK), a_job("b", seconds=30, about={"gpus": ()}, **DISK)
    )

    assert (cause.facts.seconds, cause.facts.gpu_seconds) == (40.0, 20.0)


@pytest.mark.parametrize("title", ["", " \t\n", "\x1b[31m\x1b[0m"])
def test_a_cause_without_a_visible_title_has_one(title: str) -> None:
    cause = replace(FULL_DISK, title=title)

    (shown,) = causes(a_job(verdict="infra", cause=cause))

    assert shown.facts.title == "a cause without a name"


def test_among_equals_the_dearest_cause_comes_first() -> None:
    other = replace(ASSERTION, fingerprint="other", title="another assertion")
    first, second = causes(
        a_job("a", seconds=10, **WRONG),
        a_job("b", seconds=10, **WRONG),
        a_job("c", seconds=100, verdict="failed", cause=other),
    )

    assert (first.facts.title, second.facts.jobs) == (other.title, 2)


def test_what_the_change_has_broken_comes_before_what_costs_more() -> None:
    def named(title: str) -> Cause:
        return replace(ASSERTION, fingerprint=title, title=title)

    found = causes(
        a_job("cancelled", seconds=9000, verdict="error", is_cancelled=True),
        a_job("retried", seconds=8000, verdict="failed", cause=named("overcome")),
        a_job("retried", attempt=1),
        a_job("c", seconds=7000, **DISK),
        a_job("d", seconds=600, verdict="inconclusive", cause=named("undecided")),
        a_job("e", seconds=50, verdict="failed", cause=named("failure")),
        a_job("f", seconds=1, verdict="regression", cause=named("regression")),
    )

    assert [each.facts.title for each in found] == [
        *("regression", "failure", "undecided", FULL_DISK.title, "overcome"),
        "the job was cancelled",
    ]
    assert [each.facts.cancelled for each in found] == [False] * 5 + [True]


def test_what_a_cancelled_job_had_met_is_no_cause_but_a_judgement_before_that_is() -> None:
    stopped = a_job("a", verdict="error", is_cancelled=True, cause=ASSERTION)

    (cause,) = causes(stopped)

    assert (cause.facts.title, cause.facts.cancelled) == ("the job was cancelled", True)
    judged = a_job("b", verdict="regression", is_cancelled=True, cause=ASSERTION)
    report = a_report_of(judged, verdict=Verdict.REGRESSION)
    (proven,) = causes_of(merge(material_of(judged, reports=(report,))).steps)
    assert (proven.facts.title, proven.facts.cancelled) == (ASSERTION.title, False)


def test_failures_without_a_known_cause_are_one_by_what_is_known_of_them() -> None:
    found = causes(
        a_job("a", verdict="failed", exit_status=1),
        a_job("b", verdict="failed", exit_status=1),
        a_job("c", verdict="failed", exit_status=137),
        a_job("d", verdict="error", is_timed_out=True),
        a_job("e", verdict="error", is_cancelled=True),
    )

    titles = {cause.facts.title: cause.facts.jobs for cause in found}
    assert titles == {
        "no cause known (failed, exit status 1)": 2,
        "no cause known (failed, exit status 137)": 1,
        "the job reached its time limit": 1,
        "the job was cancelled": 1,
    }
    assert not any(cause.facts.may_be_retried for cause in found)


def test_another_run_helps_only_if_every_job_of_the_cause_says_so() -> None:
    doubtful = replace(FULL_DISK, is_final=False)

    (cause,) = causes(a_job("a", **DISK), a_job("b", verdict="failed", cause=doubtful))

    assert cause.facts.may_be_retried is False


def test_an_empty_fingerprint_is_no_cause() -> None:
    nameless = replace(FULL_DISK, fingerprint="")

    found = causes(a_job("a", verdict="failed", cause=nameless), a_job("b", verdict="failed"))

    assert [cause.facts.jobs for cause in found] == [2]


def test_a_job_that_passed_has_no_cause() -> None:
    assert causes(a_job(cause=FULL_DISK)) == ()
