# SPDX-License-Identifier: Apache-2.0
"""Reads which checks this area has, in the order of a report."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.python import (
    duplicates,
    editable,
    installations,
    installed_files,
    interpreters,
    permissions,
    programs,
    requirements,
    scripts,
    shadowing,
    shared_files,
    variables,
    wheels,
)
from ci_doctor.checks.settings import DoctorSettings


def checks(_settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the area."""
    return (
        interpreters.CHECK,
        scripts.CHECK,
        programs.CHECK,
        variables.CHECK,
        shadowing.CHECK,
        duplicates.CHECK,
        shared_files.CHECK,
        installations.CHECK,
        installed_files.CHECK,
        editable.CHECK,
        wheels.CHECK,
        requirements.CHECK,
        permissions.CHECK,
    )
