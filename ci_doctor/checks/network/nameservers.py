# SPDX-License-Identifier: Apache-2.0
"""Reads /etc/resolv.conf: whether any nameserver is named."""

from ci_doctor.checks.check import CheckResult, DoctorCheck, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.network.rules import NO_NAMESERVER


def _run(context: CheckContext) -> CheckResult:
    try:
        text = (context.root / "etc" / "resolv.conf").read_text(errors="replace")
    except FileNotFoundError:
        return _none("there is no /etc/resolv.conf")
    servers = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            servers.append(words[1])
    if not servers:
        return _none("/etc/resolv.conf names no nameserver")
    return CheckResult(summary=f"/etc/resolv.conf names {', '.join(servers)}")


def _none(summary: str) -> CheckResult:
    return CheckResult(summary=summary, problems=(problem(NO_NAMESERVER, summary),))


CHECK = DoctorCheck(
    id="network/nameservers",
    title="nameservers in /etc/resolv.conf",
    run=_run,
)
