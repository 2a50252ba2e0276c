# SPDX-License-Identifier: Apache-2.0
"""Reads which checks this area has, in the order of a report."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.machine import (
    cgroup_memory,
    clock,
    cpus,
    disk_space,
    entropy,
    inodes,
    kernel_settings,
    load,
    locales,
    memory,
    network_disks,
    processes,
    shared_memory,
    ulimits,
    umask,
    virtualisation,
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
        memory.CHECK,
        cgroup_memory.CHECK,
        cpus.CHECK,
        processes.CHECK,
        ulimits.CHECK,
        load.CHECK,
        clock.CHECK,
        locales.CHECK,
        umask.CHECK,
        entropy.CHECK,
        kernel_settings.CHECK,
        virtualisation.CHECK,
    )
