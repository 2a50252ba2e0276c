# SPDX-License-Identifier: Apache-2.0
"""Reads git's configuration: whether git sees that scripts are executable."""

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, problem
from ci_doctor.checks.checkout.git_reading import read_git_config
from ci_doctor.checks.checkout.rules import FILE_MODE
from ci_doctor.checks.context import CheckContext
from ci_doctor.model.finding import ShellCommand

_FALSE = frozenset({"false", "no", "off", "0"})


def _run(context: CheckContext) -> CheckResult:
    config = context.shared(read_git_config)
    value = config.get("core.filemode", "true")
    summary = f"core.fileMode is {value}"
    if value.lower() not in _FALSE:
        return CheckResult(summary=summary)
    remedy = ShellCommand("git config core.fileMode true")
    return CheckResult(summary=summary, problems=(problem(FILE_MODE, summary, remedy=remedy),))


CHECK = DoctorCheck(
    id="checkout/file-mode",
    title="executable files",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
