# SPDX-License-Identifier: Apache-2.0
"""Reads which checks this area has, in the order of a report."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.machine import (
    disk_space,
    inodes,
    network_disks,
    shared_memory,
    writing,
)
from ci_doctor.checks.settings import DoctorSettings


def checks(_settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the area."""
    return (
        shared_memory.CHECK,
        disk_space.CHECK,
        inodes.CHECK,
        writing.CHECK,
        network_disks.CHECK,
    )
