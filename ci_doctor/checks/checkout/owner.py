# SPDX-License-Identifier: Apache-2.0
"""Reads git: whether it refuses the checkout, because another user owns it or a part is missing."""

import os
import shlex

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, UndeterminedError, problem
from ci_doctor.checks.checkout.git_reading import first_line, read_git_directory
from ci_doctor.checks.checkout.rules import CHECKOUT_BROKEN, OTHER_OWNER
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.processes import user_name
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
        fault = problem(OTHER_OWNER, summary, evidence=evidence, remedy=remedy)
    else:
        summary = f"git cannot read the checkout: {reason}"
        fault = problem(CHECKOUT_BROKEN, summary, evidence=evidence)
    return CheckResult(summary=summary, problems=(fault,))


def _trusting(context: CheckContext, words: str) -> str:
    """The command that git itself proposes; variables with the same effect if HOME takes no file."""
    path = shlex.quote(str(context.cwd))
    for line in words.splitlines():
        if line.strip().startswith(_CONFIG):
            path = line.strip().removeprefix(_CONFIG)
    home = context.environ.get("HOME")
    if home and os.access(home, os.W_OK):
        return _CONFIG + path
    # git-config(1), since git 2.31.
    place = context.environ.get("GIT_CONFIG_COUNT") or "0"
    count = int(place) + 1 if place.isdigit() else 1
    return (
        f"export GIT_CONFIG_COUNT={count} GIT_CONFIG_KEY_{count - 1}=safe.directory "
        f"GIT_CONFIG_VALUE_{count - 1}={path}"
    )


CHECK = DoctorCheck(
    id="checkout/owner",
    title="whether git reads the checkout",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
