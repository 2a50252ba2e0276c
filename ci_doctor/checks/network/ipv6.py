# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: whether a service is to listen on IPv6 that this machine does not have."""

import re

from ci_doctor.checks.check import CheckResult, DoctorCheck, Need, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.network.rules import IPV6_OFF
from ci_doctor.services.spec import ServiceSpec

# `--host ::`, `--host=::1`, `[::]:8000`: the addresses that mean every one, or this machine.
_ADDRESS = re.compile(r"(?<![\w:.])(?:\[::1?\]|::1?)(?![\w:.])|\[::1?\]:")


def _run(context: CheckContext) -> CheckResult:
    listening = [name for name, spec in context.services.items() if _names_six(spec)]
    reason = _off(context)
    if reason is None:
        return CheckResult(summary="IPv6 is on")
    if not listening:
        return CheckResult(summary=f"{reason}; no service asks for it")
    summary = f"{reason}, and an address of it is configured for {', '.join(listening)}"
    return CheckResult(summary=summary, problems=(problem(IPV6_OFF, summary),))


def _off(context: CheckContext) -> str | None:
    """Why there is no IPv6; None if there is."""
    if not (context.proc / "net" / "if_inet6").exists():
        return "the kernel has no IPv6"
    switch = context.proc / "sys" / "net" / "ipv6" / "conf" / "lo" / "disable_ipv6"
    if switch.exists() and switch.read_text().strip() == "1":
        return "IPv6 is switched off"
    return None


def _names_six(spec: ServiceSpec) -> bool:
    try:
        words = spec.words()
        address = spec.probe_address() or ""
    except ValueError:  # a start of the service reports it
        return False
    return any(_ADDRESS.search(word) for word in (*words, address))


CHECK = DoctorCheck(
    id="network/ipv6",
    title="IPv6 for services that ask for it",
    need=Need.SERVICES,
    run=_run,
)
