# SPDX-License-Identifier: Apache-2.0
"""Reads which checks this area has, in the order of a report."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.gpu import (
    clocks,
    cuda,
    devices,
    driver,
    free_memory,
    holders,
    libraries,
    loaded_libraries,
    memory_errors,
    mig,
    modes,
    xids,
)
from ci_doctor.checks.settings import DoctorSettings


def checks(_settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the area: the driver first, since the others ask it."""
    return (
        driver.CHECK,
        devices.CHECK,
        free_memory.CHECK,
        holders.CHECK,
        memory_errors.CHECK,
        xids.CHECK,
        clocks.CHECK,
        modes.CHECK,
        mig.CHECK,
        cuda.CHECK,
        libraries.CHECK,
        loaded_libraries.CHECK,
    )
