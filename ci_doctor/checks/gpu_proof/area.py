# SPDX-License-Identifier: Apache-2.0
"""Reads which checks this area has, in the order of a report."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.gpu_proof import (
    bandwidth,
    devices,
    memory_back,
    memory_patterns,
    peer_access,
    workspace,
)
from ci_doctor.checks.settings import DoctorSettings


def checks(_settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the area."""
    return (
        devices.CHECK,
        bandwidth.CHECK,
        memory_back.CHECK,
        peer_access.CHECK,
        memory_patterns.CHECK,
        workspace.CHECK,
    )
