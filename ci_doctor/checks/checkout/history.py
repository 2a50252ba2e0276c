# SPDX-License-Identifier: Apache-2.0
"""Reads git: whether the clone's history is cut off, and whether a version depends on it."""

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, problem
from ci_doctor.checks.checkout.git_reading import read_place
from ci_doctor.checks.checkout.project_version import read_project_version
from ci_doctor.checks.checkout.rules import SHALLOW_CLONE
from ci_doctor.checks.context import CheckContext
from ci_doctor.model.finding import Severity, ShellCommand


def _run(context: CheckContext) -> CheckResult:
    place = context.shared(read_place)
    if not place.is_shallow:
        return CheckResult(summary="the clone has its whole history")
    version = context.shared(read_project_version)
    severity = Severity.NOTE
    words = f"{place.top} is a shallow clone"
    if version is not None and version.described is not None and version.described.shallow:
        severity = Severity.WARNING
        words += f" whose history does not reach a version tag: {version.reason}"
    remedy = ShellCommand("git fetch --unshallow --tags")
    shallow = problem(SHALLOW_CLONE, words, severity=severity, remedy=remedy)
    return CheckResult(summary=words, problems=(shallow,))


CHECK = DoctorCheck(
    id="checkout/history",
    title="history of the clone",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
