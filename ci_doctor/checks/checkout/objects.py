# SPDX-License-Identifier: Apache-2.0
"""Reads git: whether the commit's objects are here, and the mirrors to which the clone refers."""

from collections.abc import Sequence
from pathlib import Path

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, UndeterminedError, problem
from ci_doctor.checks.checkout.git_reading import first_line, read_place, run_git
from ci_doctor.checks.checkout.rules import CHECKOUT_BROKEN
from ci_doctor.checks.context import CheckContext
from ci_doctor.model.finding import Evidence


def _run(context: CheckContext) -> CheckResult:
    place = context.shared(read_place)
    missing = _missing_mirrors(place.common_dir / "objects")
    head = run_git(context, "rev-parse", "--verify", "--quiet", "HEAD")
    if head.exit_code is None:
        raise UndeterminedError(head.last_words)
    if head.exit_code != 0:
        return _without_commit(context, place.common_dir, missing)
    commit = head.stdout.strip()
    ran = run_git(context, "cat-file", "-e", f"{commit}^{{tree}}")
    if ran.exit_code is None:
        raise UndeterminedError(ran.last_words)
    if ran.exit_code == 0 and not missing:
        return CheckResult(summary=f"{commit[:12]} is here")
    reason = f"the mirror {missing[0]} is not here" if missing else first_line(ran.stderr)
    summary = f"objects of {commit[:12]} are missing: {reason}"
    broken = problem(CHECKOUT_BROKEN, summary, evidence=(Evidence(excerpt=ran.stderr.strip()),))
    return CheckResult(summary=summary, problems=(broken,))


def _without_commit(context: CheckContext, common_dir: Path, missing: Sequence[str]) -> CheckResult:
    """A branch without a commit has no file; one that is damaged has."""
    branch = run_git(context, "symbolic-ref", "--quiet", "HEAD")
    is_unborn = branch.exit_code == 0 and not (common_dir / branch.stdout.strip()).exists()
    if is_unborn and not missing:
        return CheckResult(summary="the checkout has no commit yet")
    summary = f"the mirror {missing[0]} is not here" if missing else "HEAD names no commit"
    return CheckResult(summary=summary, problems=(problem(CHECKOUT_BROKEN, summary),))


def _missing_mirrors(objects: Path) -> list[str]:
    """The directories of objects that the clone borrows from (gitrepository-layout(5))."""
    try:
        text = (objects / "info" / "alternates").read_text(errors="surrogateescape")
    except FileNotFoundError:
        return []
    paths = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [path for path in paths if not (objects / path).is_dir()]


CHECK = DoctorCheck(
    id="checkout/objects",
    title="objects of the commit, and mirrors",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
