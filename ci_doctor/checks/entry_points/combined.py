# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts several entry points, and makes one result of what they show."""

from collections.abc import Sequence

from ci_doctor.checks.check import CheckResult, Problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.entry_points.entry_point import EntryCommand
from ci_doctor.checks.entry_points.judged import judge_entry
from ci_doctor.checks.entry_points.probing import probe_all


def probe_result(
    entries: Sequence[EntryCommand],
    context: CheckContext,
    *,
    none: str,
    problems: Sequence[Problem] = (),
) -> CheckResult:
    """The result of starting `entries`; `none` is its summary if there are none.

    `problems` are those of entry points that cannot be started.
    """
    judged = [judge_entry(probed, context) for probed in probe_all(entries, context)]
    reasons = [each.unknown for each in judged if each.unknown is not None]
    failed = [each.problem for each in judged if each.problem is not None]
    summaries = [each.summary for each in judged]
    summaries += [each.finding.summary for each in problems]
    return CheckResult(
        summary="; ".join(summaries) or none,
        problems=(*problems, *failed),
        unknown="; ".join(reasons) or None,
        evidence=tuple(evidence for each in judged for evidence in each.evidence),
        figures={"started": len(judged), "failed": len(failed)},
    )
