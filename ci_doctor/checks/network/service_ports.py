# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: the ports of this machine that services name themselves."""

from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.checks.context import CheckContext
from ci_doctor.services.ports import is_local
from ci_doctor.services.probes.ready import parse_ready
from ci_doctor.services.spec import ServiceSpec


class FixedPort(Struct, frozen=True, kw_only=True):
    """A service and its port."""

    service: str
    port: int


def fixed_ports(services: Mapping[str, ServiceSpec], context: CheckContext) -> list[FixedPort]:
    """Those of the services whose probe names a port of this machine."""
    ports = []
    for name, spec in services.items():
        port = _fixed_port(spec, context)
        if port is not None:
            ports.append(FixedPort(service=name, port=port))
    return ports


def _fixed_port(spec: ServiceSpec, context: CheckContext) -> int | None:
    try:
        if not spec.has_fixed_port():
            return None
        probe = parse_ready(spec.ready, 0, directory=context.cwd)
    except ValueError:  # another service's placeholder, or what the service's own start reports
        return None
    if not probe.is_network or not is_local(probe.host):
        return None
    return probe.port
