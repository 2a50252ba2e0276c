# SPDX-License-Identifier: Apache-2.0
"""From an investigation to the outcome that is reported. Pure."""

import signal as signals

from msgspec.structs import replace

from ci_doctor.imports.investigation import Investigation
from ci_doctor.imports.report.conclude import conclude
from ci_doctor.imports.report.facts import facts
from ci_doctor.imports.report.findings import findings
from ci_doctor.imports.report.runs import attempts, cases, tables
from ci_doctor.model.outcome import Failure, Outcome, signal_kind


def race_outcome(
    investigation: Investigation, excerpts: dict[int, str], logs: dict[int, str]
) -> Outcome:
    """What the investigation means.

    By the number of a run with a delay: `excerpts` has the last lines that it wrote to stderr,
    `logs` the file of its stderr in the report directory.
    """
    conclusion = conclude(investigation)
    return Outcome(
        verdict=conclusion.verdict,
        summary=conclusion.summary,
        findings=tuple(findings(investigation, excerpts)),
        tables=tables(investigation),
        facts=facts(investigation),
        cases=cases(investigation),
        attempts=attempts(investigation, logs),
    )


def interrupted(outcome: Outcome, received: signals.Signals) -> Outcome:
    """`outcome` after a signal to ci-doctor: what was recorded so far, and no verdict."""
    message = f"interrupted by {received.name}; every process was stopped"
    error = Failure(message=message, kind=signal_kind(received.name))
    return replace(outcome, verdict=None, summary=message, error=error)
