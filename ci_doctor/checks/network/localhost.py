# SPDX-License-Identifier: Apache-2.0
"""Reads the addresses of the name localhost."""

import ipaddress

from ci_doctor.checks.check import CheckResult, DoctorCheck, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.network.name_lookup import Lookup, look_up_name
from ci_doctor.checks.network.rules import LOCALHOST_SIX_ONLY, LOCALHOST_UNRESOLVED
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import ShellCommand

# The file may end without a newline, and is a mount in a container, which no rename replaces.
_ADD = ShellCommand("printf '\\n127.0.0.1 localhost\\n' >> /etc/hosts")
# A further line would not help: the lookup gives every address that the file has for a name.
_REPLACE = ShellCommand(
    "hosts=$(sed -E -e '/^[[:space:]]*(127\\.|::1[[:space:]])/b' -e ':again' "
    "-e 's/^([^#]*[[:space:]])localhost([[:space:]#]|$)/\\1\\2/I' -e 't again' /etc/hosts) "
    "&& printf '127.0.0.1 localhost\\n%s\\n' \"$hosts\" > /etc/hosts"
)


def judge_localhost(lookup: Lookup) -> CheckResult:
    """What the addresses of localhost mean."""
    if lookup.error is not None:
        summary = f"localhost does not resolve: {lookup.error}"
        fault = problem(LOCALHOST_UNRESOLVED, summary, remedy=_ADD)
        return CheckResult(summary=summary, problems=(fault,))
    summary = f"localhost is {', '.join(lookup.addresses)}"
    parsed = [ipaddress.ip_address(text.partition("%")[0]) for text in lookup.addresses]
    elsewhere = [address for address in parsed if not address.is_loopback]
    if elsewhere:
        words = f"{summary}, which is not this machine's loopback"
        fault = problem(LOCALHOST_UNRESOLVED, words, remedy=_REPLACE)
        return CheckResult(summary=summary, problems=(fault,))
    if not any(address.version == 4 for address in parsed):
        fault = problem(LOCALHOST_SIX_ONLY, f"{summary}, and not 127.0.0.1", remedy=_ADD)
        return CheckResult(summary=summary, problems=(fault,))
    return CheckResult(summary=summary)


def _run(_context: CheckContext) -> CheckResult:
    return judge_localhost(look_up_name("localhost"))


CHECK = DoctorCheck(
    id="network/localhost",
    title="what the name localhost leads to",
    needed_for=ALL,
    run=_run,
)
