# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: the range of ports for outgoing connections, and how much of it waits."""

from pathlib import Path

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.network.rules import PORT_EPHEMERAL, PORTS_SCARCE
from ci_doctor.checks.network.service_ports import fixed_ports
from ci_doctor.model.finding import ShellCommand

# Of the range. Fewer are the usual business of a machine that makes connections.
_MANY = 0.5


def _run(context: CheckContext) -> CheckResult:
    settings = context.proc / "sys" / "net" / "ipv4"
    first, last = map(int, (settings / "ip_local_port_range").read_text().split())
    reserved = _reserved(settings / "ip_local_reserved_ports")
    waiting = _waiting(context.proc / "net" / "sockstat")
    summary = f"ports {first} to {last} are for outgoing connections, {waiting} in TIME_WAIT"
    problems: list[Problem] = []
    if waiting > _MANY * (last - first + 1):
        problems.append(problem(PORTS_SCARCE, summary))
    exposed = [
        each
        for each in fixed_ports(context.services, context)
        if first <= each.port <= last and each.port not in reserved
    ]
    # The setting is replaced as a whole: it keeps what is reserved already.
    ports = [*_ranges(settings / "ip_local_reserved_ports"), *(str(each.port) for each in exposed)]
    remedy = ShellCommand(f"sysctl -w net.ipv4.ip_local_reserved_ports={','.join(ports)}")
    for each in exposed:
        words = f"port {each.port} of the service {each.service} is one of {first} to {last}"
        problems.append(problem(PORT_EPHEMERAL, words, remedy=remedy))
    figures = {"first": first, "last": last, "time_wait": waiting}
    return CheckResult(summary=summary, problems=tuple(problems), figures=figures)


def _reserved(path: Path) -> set[int]:
    """The ports of a list such as `8080,9000-9010` (ip_local_reserved_ports, ip-sysctl.rst)."""
    ports: set[int] = set()
    for part in _ranges(path):
        first, _, last = part.partition("-")
        ports.update(range(int(first), int(last or first) + 1))
    return ports


def _ranges(path: Path) -> list[str]:
    """The parts of that list, as they are written; empty without the file."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return [part for part in text.strip().split(",") if part]


def _waiting(sockstat: Path) -> int:
    """The number after `tw` on the line of TCP (proc_net(5)); 0 if the kernel has no such file."""
    try:
        text = sockstat.read_text()
    except FileNotFoundError:
        return 0
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["TCP:"] and "tw" in words:
            return int(words[words.index("tw") + 1])
    return 0


CHECK = DoctorCheck(
    id="network/ephemeral-ports",
    title="ports for outgoing connections",
    run=_run,
)
