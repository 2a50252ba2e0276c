# SPDX-License-Identifier: Apache-2.0
"""Reads git: whether it refuses the checkout, because another user owns it or a part is missing."""

import os
import shlex

from ci_doctor.checks.check import Cost, DoctorCheck, Need
from ci_doctor.checks.checkout.git_reading import first_line, read_git_directory
from ci_doctor.checks.checkout.rules import CHECKOUT_BROKEN, OTHER_OWNER
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.processes import user_name
from ci_doctor.checks.result import CheckResult, UndeterminedError, problem
from ci_doctor.model.finding import Evidence, ShellCommand

_CONFIG = "git config --global --add safe.directory "


def _run(context: CheckContext) -> CheckResult:
    ran = context.shared(read_git_directory)
    if ran.exit_code == 0:
        return CheckResult(summary=f"git reads {ran.stdout.splitlines()[0]}")
    if ran.exit_code is None:
        raise UndeterminedError(ran.last_words)
    reason = first_line(ran.stderr)
    evidence = (Evidence(excerpt=ran.stderr.strip()),)
    if "dubious ownership" in ran.stderr or "unsafe repository" in ran.stderr:
        summary = f"git refuses the checkout: {reason}, and we are {user_name(os.geteuid())}"
        remedy = ShellCommand(_trusting(context, ran.stderr))
        found = problem(OTHER_OWNER, summary, evidence=evidence, remedy=remedy)
    else:
        summary = f"git cannot read the checkout: {reason}"
        found = problem(CHECKOUT_BROKEN, summary, evidence=evidence)
    return CheckResult(summary=summary, problems=(found,))


def _trusting(context: CheckContext, words: str) -> str:
    """The command that git itself proposes."""
    for line in words.splitlines():
        if line.strip().startswith(_CONFIG):
            return line.strip()
    return _CONFIG + shlex.quote(str(context.cwd))


CHECK = DoctorCheck(
    id="checkout/owner",
    title="whether git reads the checkout",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
