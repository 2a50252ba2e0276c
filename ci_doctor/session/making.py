# SPDX-License-Identifier: Apache-2.0
"""Reads the clock: makes a report of an outcome."""

import shlex

from msgspec import to_builtins
from msgspec.structs import replace

from ci_doctor.model.about import About
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Outcome, concluded
from ci_doctor.model.report import Report
from ci_doctor.session.exit_policy import ExitPolicy, exit_code
from ci_doctor.session.invocation import Invocation
from ci_doctor.system import clock
from ci_doctor.version import tool_version


def make_report(
    outcome: Outcome,
    more_findings: tuple[Finding, ...],
    invocation: Invocation,
    *,
    about: About,
    policy: ExitPolicy | None,
) -> Report:
    """The report of `outcome` now, with `more_findings` behind its own."""
    # Here, once for all rooms: no report passes with an error among its findings.
    findings = (*outcome.findings, *more_findings)
    verdict, summary = concluded(outcome.verdict, outcome.summary, findings)
    outcome = replace(outcome, verdict=verdict, summary=summary, findings=findings)
    duration_s = clock.now() - invocation.started
    command_line = shlex.join(["ci-doctor", *invocation.argv])
    return Report(
        tool_version=tool_version(),
        command=invocation.command,
        argv=invocation.argv,
        started_at=invocation.started_at,
        duration_s=round(duration_s, 3),
        about=about,
        verdict=outcome.verdict,
        error=outcome.error,
        exit_code=exit_code(outcome, policy or ExitPolicy()),
        summary=outcome.summary,
        reproduce=outcome.reproduce or command_line,
        findings=outcome.findings,
        tables=outcome.tables,
        facts=to_builtins(outcome.facts),
        cases=outcome.cases,
        attempts=outcome.attempts,
        attachments=outcome.attachments,
    )
