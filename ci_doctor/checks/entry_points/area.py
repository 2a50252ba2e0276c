# SPDX-License-Identifier: Apache-2.0
"""Reads which checks this area has, in the order of a report."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.entry_points import commands_check, services_check, workload_check
from ci_doctor.checks.entry_points.of_workload import PACKAGES
from ci_doctor.checks.settings import DoctorSettings, Workload


def checks(settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the area: those that have something to start."""
    chosen = [services_check.CHECK]
    if settings.workload is not None and Workload(settings.workload) in PACKAGES:
        chosen.insert(0, workload_check.CHECK)
    if settings.entry_points:
        chosen.append(commands_check.CHECK)
    return tuple(chosen)
