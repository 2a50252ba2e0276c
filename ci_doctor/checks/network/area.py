# SPDX-License-Identifier: Apache-2.0
"""Reads which checks this area has, in the order of a report."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.network import (
    ephemeral_ports,
    hostname,
    ipv6,
    localhost,
    loopback,
    loopback_proxy,
    nameservers,
    ports,
)
from ci_doctor.checks.network.hosts import host_checks
from ci_doctor.checks.settings import DoctorSettings


def checks(settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the area."""
    return (
        loopback.CHECK,
        localhost.CHECK,
        hostname.CHECK,
        loopback_proxy.CHECK,
        nameservers.CHECK,
        *host_checks(settings.hosts),
        ports.CHECK,
        ephemeral_ports.CHECK,
        ipv6.CHECK,
    )
