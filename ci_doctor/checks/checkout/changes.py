# SPDX-License-Identifier: Apache-2.0
"""Reads git: files under version control that differ from the commit."""

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, UndeterminedError, problem
from ci_doctor.checks.checkout.git_reading import read_place, run_git
from ci_doctor.checks.checkout.rules import DIRTY_CHECKOUT
from ci_doctor.checks.context import CheckContext
from ci_doctor.model.finding import Evidence, ShellCommand
from ci_doctor.render.formatting import amount

_SHOWN = 10


def _run(context: CheckContext) -> CheckResult:
    context.shared(read_place)
    # Submodules have a check of their own.
    ran = run_git(
        context, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"
    )
    if ran.exit_code != 0:
        raise UndeterminedError(f"git status: {ran.last_words}")
    lines = ran.stdout.splitlines()
    if not lines:
        return CheckResult(summary="no file differs from the commit")
    summary = f"{amount(len(lines), 'file')} under version control differ from the commit"
    excerpt = "\n".join(lines[:_SHOWN])
    changed = problem(
        DIRTY_CHECKOUT,
        summary,
        evidence=(Evidence(excerpt=excerpt),),
        remedy=ShellCommand(
            "git stash  # what is changed: git diff --stat HEAD; back again: git stash pop"
        ),
    )
    return CheckResult(summary=summary, problems=(changed,), figures={"files": len(lines)})


CHECK = DoctorCheck(
    id="checkout/changes",
    title="files that differ from the commit",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
