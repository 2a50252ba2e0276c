# SPDX-License-Identifier: Apache-2.0
"""From an experiment to the fields of a report. Pure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from ci_doctor.correctness.report import describe, figures, picture
from ci_doctor.correctness.report.differences import differences
from ci_doctor.correctness.report.findings import Context, findings
from ci_doctor.correctness.results import Experiment, ExperimentEnding
from ci_doctor.correctness.verdict.canary import canary_detected
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.model.finding import Finding
from ci_doctor.model.verdict import Verdict


def judge(experiment: Experiment, context: Context, settles: str) -> Decision:
    """The verdict over the starts that were made; where it is undecided it says what `settles` it."""
    identities = [request.id for request in context.requests]
    complete = experiment.ending is ExperimentEnding.COMPLETE
    decision = decide(experiment.starts, identities, experiment.rules, complete=complete)
    if not canary_detected(experiment, identities):
        reason = "the comparison is not proven: one answer changed in memory was not found, or could not be read again"
        return Decision(verdict=Verdict.VOID, reason=reason)
    return (
        replace(decision, settle=settles) if decision.verdict is Verdict.INCONCLUSIVE else decision
    )


def report_fields(
    experiment: Experiment,
    decision: Decision,
    context: Context,
    *,
    samples: Path,
    directory: Path,
    noticed: Sequence[Finding],
) -> dict[str, Any]:
    """Everything in a report that the evidence decides; `noticed` are findings from before the first start."""
    found = differences(experiment, decision, [request.id for request in context.requests])
    errors = {
        identity: text for result in experiment.results for identity, text in result.errors.items()
    }
    return {
        "findings": (*findings(experiment, decision, found, context), *noticed),
        "tables": picture.tables(experiment, decision, found, context),
        "facts": to_builtins(figures.facts(experiment, decision, found)),
        "cases": describe.cases(decision, context.requests, errors),
        "attempts": describe.attempts(experiment, directory),
        "attachments": describe.attachments(experiment, samples, directory),
    }
