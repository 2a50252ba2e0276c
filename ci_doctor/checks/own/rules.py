# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `own`: the checks of a repository."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

OWN_CHECK_FAILED: Final = Rule(
    id="doctor/own-check-failed",
    severity=Severity.ERROR,
    meaning="A check of the repository, a command in `[doctor.checks]`, failed. Exit "
    "status 75 is an error of the environment. Any other status has the severity and the fault that "
    "the configuration gives it. 0 is ok. 86, 126, 127 and the end by a signal are unknown.",
    remedy="Run the command by itself, and see what it prints.",
)

RULES: Final[tuple[Rule, ...]] = (OWN_CHECK_FAILED,)
