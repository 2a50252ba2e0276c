# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `network`."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

LOOPBACK_PROXIED: Final = Rule(
    id="doctor/loopback-proxied",
    severity=Severity.WARNING,
    meaning="Requests to a server on this machine go to a proxy, which cannot reach it. A readiness "
    "probe then waits until its timeout for a server that is ready. ci-doctor's own probes and "
    "clients use no proxy.",
    remedy='export no_proxy="${no_proxy:+$no_proxy,}localhost,127.0.0.1,::1" && '
    'export NO_PROXY="$no_proxy"',
)

PROXY_UNUSABLE: Final = Rule(
    id="doctor/proxy-unusable",
    severity=Severity.WARNING,
    meaning="httpx, and openai above it, reads the proxy variables when a client is made, and raises "
    "an exception for some values, whatever the address of a request.",
    remedy="Write the variables as httpx reads them, or make clients with trust_env=False.",
)

LOCALHOST_UNRESOLVED: Final = Rule(
    id="doctor/localhost-unresolved",
    severity=Severity.ERROR,
    meaning="The name localhost does not lead to the loopback interface, so programs do not find "
    "servers of this machine.",
    remedy="Give the name 127.0.0.1 in /etc/hosts, and take it from other addresses there.",
)

LOCALHOST_SIX_ONLY: Final = Rule(
    id="doctor/localhost-ipv6-only",
    severity=Severity.WARNING,
    meaning="The name localhost leads to ::1 alone. A client that asks for localhost does not reach a "
    "server that listens on 127.0.0.1 or 0.0.0.0.",
    remedy="printf '\\n127.0.0.1 localhost\\n' >> /etc/hosts",
)

HOSTNAME_UNRESOLVED: Final = Rule(
    id="doctor/hostname-unresolved",
    severity=Severity.WARNING,
    meaning="This machine's own name has no address. torch.distributed and Gloo look it up when "
    "workers connect, and fail or wait.",
    remedy="printf '\\n127.0.1.1 %s\\n' \"$(hostname)\" >> /etc/hosts",
)

LOOPBACK_DOWN: Final = Rule(
    id="doctor/loopback-down",
    severity=Severity.ERROR,
    meaning="No connection over 127.0.0.1 is possible, so no client reaches a server on this machine. "
    "A new network namespace begins with its loopback interface down.",
    remedy="ip link set lo up",
)

NO_NAMESERVER: Final = Rule(
    id="doctor/no-nameserver",
    severity=Severity.NOTE,
    meaning="/etc/resolv.conf names no nameserver, so names of other machines are not resolved. A job "
    "that downloads nothing does not need one.",
    remedy="Start the container with `--dns`, or mount a /etc/resolv.conf.",
)

HOST_UNRESOLVED: Final = Rule(
    id="doctor/host-unresolved",
    severity=Severity.ERROR,
    meaning="A host of `hosts` in [doctor] has no address here, so the job cannot reach it.",
    remedy="Check the nameservers in /etc/resolv.conf.",
)

PORT_TAKEN: Final = Rule(
    id="doctor/port-taken",
    severity=Severity.ERROR,
    meaning="Another process listens on the port of a configured service, so the service cannot start "
    "there, or its probe is answered by the other process.",
    remedy="End that process, or give the service `{port}`, a free one.",
)

PORT_EPHEMERAL: Final = Rule(
    id="doctor/port-ephemeral",
    severity=Severity.NOTE,
    meaning="The fixed port of a service lies in the range from which the kernel takes ports for "
    "outgoing connections. Once in a while one of them holds it when the service starts.",
    remedy="Give the service `{port}`, or a port below the range, or reserve it with sysctl "
    "net.ipv4.ip_local_reserved_ports.",
)

PORTS_SCARCE: Final = Rule(
    id="doctor/ports-scarce",
    severity=Severity.NOTE,
    meaning="Closed connections hold their port for a minute (TIME_WAIT). If they hold most of the "
    "range for outgoing connections, new ones to the same server fail.",
    remedy="Use connections more than once (keep-alive), or widen the range: sysctl "
    "net.ipv4.ip_local_port_range.",
)

IPV6_OFF: Final = Rule(
    id="doctor/ipv6-off",
    severity=Severity.WARNING,
    meaning="A configured service is to listen on an IPv6 address, and this machine has no IPv6.",
    remedy="Let the service listen on 0.0.0.0 or 127.0.0.1.",
)

RULES: Final[tuple[Rule, ...]] = (
    LOOPBACK_PROXIED,
    PROXY_UNUSABLE,
    LOCALHOST_UNRESOLVED,
    LOCALHOST_SIX_ONLY,
    HOSTNAME_UNRESOLVED,
    LOOPBACK_DOWN,
    NO_NAMESERVER,
    HOST_UNRESOLVED,
    PORT_TAKEN,
    PORT_EPHEMERAL,
    PORTS_SCARCE,
    IPV6_OFF,
)
