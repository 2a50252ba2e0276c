# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts a guardian, and waits until it is ready."""

import os

from ci_doctor.errors import InfraError
from ci_doctor.system.guardian.connection import READY, GuardianConnection
from ci_doctor.system.guardian.launch import SCARCE, SECCOMP, launch
from ci_doctor.system.processes.process import describe_exit

_START_S = 30.0  # a cold file system under a loaded machine


def begin(attempts: int = 2) -> tuple[int, GuardianConnection]:
    """A guardian that is ready: its pid, and our connection to it.

    One that is killed before it is ready is started again, up to `attempts` in all. Raises
    InfraError if there is none then.
    """
    process, wire = launch()
    connection = GuardianConnection(process, wire)
    try:
        _wait_until_ready(connection)
    except BaseException as error:
        was_killed = connection.gone and (process.wait() or 0) < 0
        connection.lose()
        if isinstance(error, InfraError) and was_killed and attempts > 1:
            return begin(attempts - 1)
        raise
    return process.pid, connection


def _wait_until_ready(connection: GuardianConnection) -> None:
    try:
        (_, refused), _ = connection.answer(READY, _START_S)
    except InfraError as error:
        how = describe_exit(connection.returncode or 0)
        raise InfraError(f"the guardian process did not start ({how})", hint=SCARCE) from error
    if refused:
        raise InfraError(
            f"the guardian process may not adopt orphans: {os.strerror(refused)}", hint=SECCOMP
        )
