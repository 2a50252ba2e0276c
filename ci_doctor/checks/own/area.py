# SPDX-License-Identifier: Apache-2.0
"""Reads which checks the repository has of its own, in the order of its configuration."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.own.command import own_check
from ci_doctor.checks.settings import DoctorSettings


def checks(settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the area. Raises ValueError for one that `require_runnable` refuses."""
    return tuple(own_check(name, own) for name, own in settings.checks.items())
