# SPDX-License-Identifier: Apache-2.0
"""Reads the address of this machine's own name, which workers of one server look up."""

import shlex

from ci_doctor.checks.check import CheckResult, DoctorCheck, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.network.name_lookup import Lookup, look_up_name
from ci_doctor.checks.network.rules import HOSTNAME_UNRESOLVED
from ci_doctor.model.finding import ShellCommand


def judge_hostname(name: str, lookup: Lookup) -> CheckResult:
    """What the addresses of our own `name` mean."""
    if lookup.error is None:
        return CheckResult(summary=f"{name} is {', '.join(lookup.addresses)}")
    summary = f"this machine's name {name} does not resolve: {lookup.error}"
    remedy = ShellCommand(f"printf '\\n127.0.1.1 %s\\n' {shlex.quote(name)} >> /etc/hosts")
    fault = problem(HOSTNAME_UNRESOLVED, summary, remedy=remedy)
    return CheckResult(summary=summary, problems=(fault,))


def _run(_context: CheckContext) -> CheckResult:
    import socket

    name = socket.gethostname()
    return judge_hostname(name, look_up_name(name))


CHECK = DoctorCheck(
    id="network/hostname",
    title="the address of this machine's own name",
    run=_run,
)
