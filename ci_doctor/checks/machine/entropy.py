# SPDX-License-Identifier: Apache-2.0
"""Reads whether the kernel gives random bytes without a wait."""

import os

from ci_doctor.checks.check import CheckResult, DoctorCheck, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.rules import ENTROPY_MISSING


def _run(_context: CheckContext) -> CheckResult:
    try:
        os.getrandom(1, os.GRND_NONBLOCK)
    except BlockingIOError:
        summary = "random bytes are not available yet (getrandom(2) blocks)"
        return CheckResult(summary=summary, problems=(problem(ENTROPY_MISSING, summary),))
    return CheckResult(summary="random bytes come at once")


CHECK = DoctorCheck(
    id="machine/entropy",
    title="random numbers of the kernel",
    run=_run,
)
