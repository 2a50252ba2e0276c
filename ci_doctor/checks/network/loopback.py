# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets: one connection over 127.0.0.1, to a port of our own."""

from ci_doctor.checks.check import CheckResult, DoctorCheck, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.network.rules import LOOPBACK_DOWN
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import ShellCommand

_CONNECT_S = 1.0


def _run(_context: CheckContext) -> CheckResult:
    import socket

    # What fails here is no socket at all: not the network's fault, so the result is unknown.
    with socket.socket() as server, socket.socket() as client:
        client.settimeout(_CONNECT_S)
        try:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            client.connect(server.getsockname())
        except TimeoutError:
            raise
        except OSError as error:
            return _down(error.strerror or str(error))
    return CheckResult(summary="127.0.0.1 can be connected to")


def _down(reason: str) -> CheckResult:
    summary = f"no connection over 127.0.0.1: {reason}"
    fault = problem(LOOPBACK_DOWN, summary, remedy=ShellCommand("ip link set lo up"))
    return CheckResult(summary=summary, problems=(fault,))


CHECK = DoctorCheck(
    id="network/loopback",
    title="the loopback interface",
    needed_for=ALL,
    run=_run,
)
