# SPDX-License-Identifier: Apache-2.0
"""Reads the repository: a rebase, merge or bisection that an earlier job has begun and not ended."""

from pathlib import Path

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, problem
from ci_doctor.checks.checkout.git_reading import read_place
from ci_doctor.checks.checkout.rules import UNFINISHED
from ci_doctor.checks.context import CheckContext
from ci_doctor.model.finding import Evidence, ShellCommand

# The commit that the job has checked out stays: `--abort` would go back to where it began.
_CLEAN = "git reset --quiet --hard"
# What git keeps in its directory meanwhile (wt-status.c, wt_status_get_state), and what forgets it.
_STATES = (
    ("rebase-merge", "a rebase", f"git rebase --quit && {_CLEAN}"),
    ("rebase-apply/applying", "git am", f"git am --quit && {_CLEAN}"),
    ("rebase-apply", "a rebase", f"git rebase --quit && {_CLEAN}"),
    # Before Git 2.35, `--quit` of these two keeps CHERRY_PICK_HEAD; a hard reset removes it.
    ("CHERRY_PICK_HEAD", "a cherry-pick", f"git cherry-pick --quit; {_CLEAN}"),
    ("REVERT_HEAD", "a revert", f"git revert --quit; {_CLEAN}"),
    ("MERGE_HEAD", "a merge", f"git merge --quit && {_CLEAN}"),
    ("BISECT_LOG", "a bisection", "git bisect reset HEAD"),
)


def _run(context: CheckContext) -> CheckResult:
    place = context.shared(read_place)
    begun = _begun(place.git_dir)
    if not begun:
        return CheckResult(summary="no rebase, merge or bisection is under way")
    names = " and ".join(dict.fromkeys(name for _, name, _ in begun))
    summary = f"{names} was begun in {place.top} and is not ended"
    steps = " && ".join(dict.fromkeys(command for _, _, command in begun))
    fault = problem(
        UNFINISHED,
        summary,
        evidence=tuple(Evidence(file=str(place.git_dir / file)) for file, _, _ in begun),
        remedy=ShellCommand(f"{steps}  # keeps the commit, drops what the half of it has changed"),
    )
    return CheckResult(summary=summary, problems=(fault,))


def _begun(git_dir: Path) -> list[tuple[str, str, str]]:
    begun = [row for row in _STATES if (git_dir / row[0]).exists()]
    names = {file for file, _, _ in begun}
    if "rebase-apply/applying" in names:
        return [row for row in begun if row[0] != "rebase-apply"]
    # A rebase picks each commit by a cherry-pick of its own.
    if "rebase-merge" in names:
        return [row for row in begun if row[0] != "CHERRY_PICK_HEAD"]
    return begun


CHECK = DoctorCheck(
    id="checkout/unfinished",
    title="a rebase, merge or bisection that is not ended",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
