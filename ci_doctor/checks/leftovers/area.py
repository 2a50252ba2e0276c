# SPDX-License-Identifier: Apache-2.0
"""Reads which checks this area has, in the order of a report."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.leftovers import (
    build_locks,
    bytecode,
    downloads,
    processes,
    shared_memory_files,
    temporary_directories,
    zombies,
)
from ci_doctor.checks.settings import DoctorSettings


def checks(_settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the area."""
    return (
        processes.CHECK,
        zombies.CHECK,
        shared_memory_files.CHECK,
        temporary_directories.CHECK,
        downloads.CHECK,
        build_locks.CHECK,
        bytecode.CHECK,
    )
