# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of what `ci-doctor doctor` finds: those of each area, and those of checks as such."""

from typing import Final

from ci_doctor.checks.checkout import rules as checkout
from ci_doctor.checks.entry_points import rules as entry_points
from ci_doctor.checks.gpu import rules as gpu
from ci_doctor.checks.gpu_proof import rules as gpu_proof
from ci_doctor.checks.leftovers import rules as leftovers
from ci_doctor.checks.machine import rules as machine
from ci_doctor.checks.network import rules as network
from ci_doctor.checks.own import rules as own
from ci_doctor.checks.python import rules as python
from ci_doctor.checks.starts import rules as starts
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

CHECK_CRASHED: Final = Rule(
    id="doctor/check-crashed",
    severity=Severity.WARNING,
    meaning="A check of ci-doctor ended by an error of its own, so what it looks at is unknown.",
    remedy="This says nothing about the machine. Please report it with the text of the error.",
)

# A new area adds its line here.
RULES: Final[tuple[Rule, ...]] = (
    CHECK_CRASHED,
    *gpu.RULES,
    *machine.RULES,
    *network.RULES,
    *leftovers.RULES,
    *checkout.RULES,
    *python.RULES,
    *starts.RULES,
    *entry_points.RULES,
    *gpu_proof.RULES,
    *own.RULES,
)
