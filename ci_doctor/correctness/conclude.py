# SPDX-License-Identifier: Apache-2.0
"""From an experiment to the fields of a report. Pure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ci_doctor.correctness import describe
from ci_doctor.correctness.decide import Decision, decide
from ci_doctor.correctness.differences import differences
from ci_doctor.correctness.findings import Context, findings
from ci_doctor.correctness.results import Ending, Experiment
from ci_doctor.model.finding import Finding


def judge(experiment: Experiment, context: Context) -> Decision:
    """The verdict over the starts that were made."""
    identities = [request.id for request in context.requests]
    return decide(experiment.starts, identities, complete=experiment.ending is Ending.COMPLETE)


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
    shown = differences(experiment, decision, context.requests)
    errors = {identity: text for result in experiment.results for identity, text in result.errors.items()}
    return {
        "findings": (*findings(experiment, decision, shown, context), *noticed),
        "sections": describe.sections(experiment, decision),
        "facts": describe.facts(experiment, decision, shown),
        "cases": describe.cases(decision, context.requests, errors),
        "attempts": describe.attempts(experiment, directory),
        "attachments": describe.attachments(experiment, samples, directory),
    }
