# SPDX-License-Identifier: Apache-2.0
"""Acts on files: mends what can be mended safely, and looks again: `ci-doctor lint --fix`."""

from collections.abc import Callable, Mapping

from ci_doctor.lint.examine import examine
from ci_doctor.lint.lint_run import LintRequest, LintRun
from ci_doctor.lint.repair import RepairPlan, plan_repair
from ci_doctor.lint.repair_files import write_repairs
from ci_doctor.lint.repository_texts import RepositoryTexts
from ci_doctor.model.facts.lint import LintFixFacts


def planned(ran: LintRun, request: LintRequest) -> RepairPlan:
    """The changes that mend what `ran` reports. Nothing is changed."""
    files = ran.judgement.files
    sources = {file: judged.source for file, judged in files.items()}
    texts = RepositoryTexts(ran.scope.root)
    readers = request.readers(ran.tree, texts)

    def count_unreadable(file: str, text: str) -> int:
        return len(examine(file, text, files[file].kind, readers, texts.read).unreadable)

    return plan_repair(ran.selection.violations, sources, count_unreadable)


def mended(ran: LintRun, plan: RepairPlan, show: Callable[[str], None]) -> LintFixFacts:
    """Show the changes of `plan`, make them, and say what came of it."""
    if plan.diff:
        show(plan.diff)
    not_written = write_repairs(ran.scope.root, plan)
    return fix_facts(plan, not_written, is_dry_run=False)


def fix_facts(
    plan: RepairPlan, not_written: Mapping[str, str], *, is_dry_run: bool
) -> LintFixFacts:
    """The facts of `plan`, of which the files of `not_written` stayed as they were."""
    files = {each.source.file: each.count for each in plan.files}
    written = {file: count for file, count in files.items() if file not in not_written}
    return LintFixFacts(
        is_dry_run=is_dry_run,
        diff=plan.diff,
        files=written,
        refused={**plan.refused, **not_written},
        overlapping=plan.overlapping,
    )
