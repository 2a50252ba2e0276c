# SPDX-License-Identifier: Apache-2.0
"""Reads the addresses of the hosts that a repository names; without such, no host is looked up."""

from collections.abc import Sequence
from functools import partial

from ci_doctor.checks.check import CheckResult, DoctorCheck, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.network.name_lookup import Lookup, look_up_name
from ci_doctor.checks.network.rules import HOST_UNRESOLVED
from ci_doctor.checks.settings import ALL

# As long as glibc waits for one nameserver (resolv.conf(5), options timeout).
_DEADLINE_S = 5.0


def host_checks(hosts: Sequence[str]) -> tuple[DoctorCheck, ...]:
    """A check for each host, so that one slow answer does not hold up the others."""
    checks = []
    for host in dict.fromkeys(hosts):
        check = DoctorCheck(
            id=f"network/host-{host}",
            title=f"the address of {host}",
            needed_for=ALL,
            deadline_s=_DEADLINE_S,
            run=partial(_run, host),
        )
        checks.append(check)
    return tuple(checks)


def judge_host(host: str, lookup: Lookup) -> CheckResult:
    """What the addresses of `host` mean."""
    if lookup.error is None:
        return CheckResult(summary=f"{host} is {', '.join(lookup.addresses)}")
    summary = f"{host} does not resolve: {lookup.error}"
    remedy = f"compare the nameservers with those of another agent: `cat /etc/resolv.conf; getent ahosts {host}`"
    return CheckResult(
        summary=summary, problems=(problem(HOST_UNRESOLVED, summary, remedy=remedy),)
    )


def _run(host: str, _context: CheckContext) -> CheckResult:
    return judge_host(host, look_up_name(host))
