# SPDX-License-Identifier: Apache-2.0
"""Reads which checks this area has, in the order of a report."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.checks.starts import costs, failing, printing, shadowed, shim


def checks(_settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the area."""
    return (failing.CHECK, shadowed.CHECK, printing.CHECK, costs.CHECK, shim.CHECK)
