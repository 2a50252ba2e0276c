# SPDX-License-Identifier: Apache-2.0
"""Reads from the kernel who listens on the ports of the configured services."""

from ci_doctor.checks.check import CheckResult, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.network.rules import PORT_TAKEN
from ci_doctor.checks.network.service_ports import FixedPort, fixed_ports
from ci_doctor.checks.processes import read_processes
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import ShellCommand
from ci_doctor.system.processes.listeners import holders, listening_inodes


def _run(context: CheckContext) -> CheckResult:
    ports = fixed_ports(context.services, context)
    if not ports:
        return CheckResult(summary="no service has a port of its own choice")
    problems = []
    for each in ports:
        inodes = listening_inodes(each.port)
        if inodes:
            problems.append(_taken(each, inodes, context))
    listed = ", ".join(str(each.port) for each in ports)
    if not problems:
        return CheckResult(summary=f"free: {listed}")
    return CheckResult(summary=f"{len(problems)} taken of {listed}", problems=tuple(problems))


def _taken(port: FixedPort, inodes: frozenset[int], context: CheckContext) -> Problem:
    head = f"port {port.port} of the service {port.service} is taken"
    processes = context.shared(read_processes)
    pid = next(holders(processes, inodes), None)
    if pid is None:
        ask = f"ask the user who owns it: `sudo ss -ltnp 'sport = :{port.port}'`"
        return problem(PORT_TAKEN, f"{head} by a process of another user", remedy=ask)
    owner = processes[pid]
    look = f"ps -o pid,user,lstart,args -p {pid}"
    remedy = ShellCommand(f"kill {pid}  # if it is of no use: {look}")
    return problem(PORT_TAKEN, f"{head} by {owner.describe()}", remedy=remedy)


CHECK = DoctorCheck(
    id="network/ports",
    title="ports of the configured services",
    need=Need.SERVICES,
    needed_for=ALL,
    run=_run,
)
