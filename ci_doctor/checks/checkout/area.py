# SPDX-License-Identifier: Apache-2.0
"""Reads which checks this area has, in the order of a report."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.checkout import (
    changes,
    file_mode,
    git_program,
    history,
    lfs,
    locks,
    objects,
    owner,
    partial,
    submodules,
    unfinished,
    variables,
    version_tags,
)
from ci_doctor.checks.settings import DoctorSettings


def checks(_settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the area."""
    return (
        git_program.CHECK,
        owner.CHECK,
        objects.CHECK,
        history.CHECK,
        version_tags.CHECK,
        submodules.CHECK,
        lfs.CHECK,
        changes.CHECK,
        partial.CHECK,
        file_mode.CHECK,
        locks.CHECK,
        unfinished.CHECK,
        variables.CHECK,
    )
