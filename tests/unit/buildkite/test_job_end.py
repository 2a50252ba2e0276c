# SPDX-License-Identifier: Apache-2.0
"""One verdict for a whole job, also where its command failed behind ci-doctor's back."""

import pytest

from ci_doctor.buildkite.job_end import JobEnd, worst_verdict
from ci_doctor.model.outcome import Report
from ci_doctor.model.verdict import EXIT_CODES, Verdict

COMMAND = "BUILDKITE_COMMAND_EXIT_STATUS"
HOOK = "BUILDKITE_LAST_HOOK_EXIT_STATUS"
CANCELLED = "BUILDKITE_JOB_CANCELLED"


def a_report(verdict: Verdict) -> Report:
    return Report(
        tool_version="1",
        command="correctness",
        argv=(),
        started_at="2026-11-21T00:00:00.000Z",
        duration_s=1.0,
        verdict=verdict,
        exit_code=EXIT_CODES[verdict],
        summary="s",
    )


@pytest.mark.parametrize(
    ("environ", "verdicts", "expected"),
    [
        ({COMMAND: "0"}, [Verdict.PASS], "pass"),
        ({COMMAND: "0", HOOK: "0"}, [Verdict.PASS], "pass"),
        # What ci-doctor has seen already keeps its name.
        ({COMMAND: "1"}, [Verdict.REGRESSION], "regression"),
        ({COMMAND: "75"}, [Verdict.PASS, Verdict.INFRA], "infra"),
        ({COMMAND: "0"}, [Verdict.NONDETERMINISTIC], "nondeterministic"),
        # What it has not seen is a failure.
        ({COMMAND: "1"}, [Verdict.PASS], "failed"),
        ({COMMAND: "1"}, [Verdict.FLAKY], "failed"),
        ({COMMAND: "1"}, [Verdict.INFRA], "failed"),
        ({COMMAND: "3"}, [Verdict.REGRESSION], "regression"),
        ({COMMAND: "-1"}, [Verdict.PASS], "failed"),
        ({COMMAND: "137", HOOK: "0"}, [Verdict.PASS], "failed"),
        ({COMMAND: "0", HOOK: "4"}, [Verdict.PASS], "failed"),
        ({HOOK: "4"}, [Verdict.PASS], "failed"),
        # Nobody knows what a command would have said that never ran, or not to its end.
        ({}, [Verdict.PASS], "error"),
        ({HOOK: "0"}, [Verdict.PASS], "error"),
        ({COMMAND: "-1", CANCELLED: "true"}, [Verdict.PASS], "error"),
        ({COMMAND: "143", "BUILDKITE_JOB_TIMED_OUT": "true"}, [Verdict.PASS], "error"),
        ({COMMAND: "143", CANCELLED: "true"}, [Verdict.REGRESSION], "regression"),
        # Empty evidence passes nothing.
        ({COMMAND: "0"}, [], "void"),
        ({COMMAND: "1"}, [], "failed"),
    ],
)
def test_a_job_that_failed_has_no_verdict_that_passes(
    environ: dict[str, str], verdicts: list[Verdict], expected: str
) -> None:
    end = JobEnd.from_environ(environ)

    assert worst_verdict([a_report(verdict) for verdict in verdicts], end) == expected


def test_a_job_that_still_runs_has_the_verdict_of_its_reports() -> None:
    assert worst_verdict([a_report(Verdict.PASS)]) == "pass"
