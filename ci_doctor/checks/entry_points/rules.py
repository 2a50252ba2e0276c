# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `entry_points`, which `--imports` adds."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

ENTRY_POINT_FAILS: Final = Rule(
    id="doctor/entry-point-fails",
    severity=Severity.ERROR,
    meaning="An entry point of the job does not start: importing what it needs, or its `--help`, "
    "fails in a fresh process. Every service with this command will fail the same way.",
    remedy="Read the cause in the evidence, and repair what is installed before the job starts.",
)
ENTRY_POINT_MISSING: Final = Rule(
    id="doctor/entry-point-missing",
    severity=Severity.ERROR,
    meaning="The interpreter of the job lacks the package that `--for` names, or a service is "
    "started by a program that is not there.",
    remedy="Install the package into the interpreter that the job runs, or name the right one: "
    "`--python PY`.",
)

RULES: Final[tuple[Rule, ...]] = (ENTRY_POINT_FAILS, ENTRY_POINT_MISSING)
