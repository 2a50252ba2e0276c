# SPDX-License-Identifier: Apache-2.0
"""Reads the version of git."""

import re

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, UndeterminedError, problem
from ci_doctor.checks.checkout.git_reading import run_git
from ci_doctor.checks.checkout.rules import GIT_MISSING, GIT_OLD
from ci_doctor.checks.context import CheckContext

# `git describe --exclude` (git's RelNotes/2.13.0.txt).
_LEAST = (2, 13)


def _run(context: CheckContext) -> CheckResult:
    try:
        ran = run_git(context, "--version")
    except FileNotFoundError:
        summary = "there is no git on PATH"
        return CheckResult(summary=summary, problems=(problem(GIT_MISSING, summary),))
    return judge_version(ran.stdout.strip())


def judge_version(text: str) -> CheckResult:
    """What `git version 2.39.5` means. Raises UndeterminedError if there is no number."""
    number = re.search(r"(\d+)\.(\d+)", text)
    if number is None:
        raise UndeterminedError(f"git --version prints {text!r}")
    if tuple(map(int, number.groups())) < _LEAST:
        return CheckResult(summary=text, problems=(problem(GIT_OLD, f"{text} is older than 2.13"),))
    return CheckResult(summary=text)


CHECK = DoctorCheck(
    id="checkout/git",
    title="git itself",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
