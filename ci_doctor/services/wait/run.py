# SPDX-License-Identifier: Apache-2.0
"""Acts on file descriptors: a wait from its request to its outcome. Starts and kills nothing."""

import contextlib
import os
from collections.abc import Callable

from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import Outcome
from ci_doctor.services.pidfile import LARGEST_PID
from ci_doctor.services.probes.ready import Scheme
from ci_doctor.services.wait.report import outcome_of
from ci_doctor.services.wait.waited import WaitProgress, WaitRequest
from ci_doctor.services.wait.waiting import wait_for
from ci_doctor.system.processes.interruption import Interruption


def run(
    request: WaitRequest,
    *,
    interruption: Interruption | None = None,
    on_progress: Callable[[WaitProgress], None] = lambda _: None,
) -> Outcome:
    """Wait until the process is ready or dead, and judge.

    `interruption` is handling signals already; without one, signals are handled here. Raises
    UsageError if nobody can wait for `request`, InfraError if the system does not let us watch.
    """
    check_request(request)
    with contextlib.ExitStack() as stack:
        if interruption is None:
            interruption = Interruption()
            stack.enter_context(interruption.handling())
        waited = wait_for(request, interruption, on_progress)
    return outcome_of(waited, request.probe)


def check_request(request: WaitRequest) -> None:
    """Raises UsageError for a request that makes no sense."""
    if bool(request.pids) is (request.pidfile is not None):
        raise UsageError(
            "exactly one of --pid and --pidfile is needed",
            hint="name the process, or the file that will",
        )
    for pid in request.pids:
        _check_pid(pid)
    probe = request.probe
    if probe.is_network and not probe.port:
        raise UsageError(
            f"--ready {probe.path} names no host and port",
            hint=f"write the whole URL: http://127.0.0.1:8000{probe.path}",
        )
    if probe.scheme is Scheme.LOG and request.log is None:
        raise UsageError("--ready log:… needs a log to look in", hint="name it with --log FILE")


def _check_pid(pid: int) -> None:
    if pid <= 0:
        raise UsageError(
            f"--pid {pid} names no process",
            hint="is the variable that held it empty, or a process group?",
        )
    if pid > LARGEST_PID:
        raise UsageError(
            f"--pid {pid} names no process: no system has so many",
            hint=f"a pid is at most {LARGEST_PID} (proc_sys_kernel(5), pid_max)",
        )
    if pid == 1:
        raise UsageError("--pid 1 is the system's first process", hint="name the server itself")
    if pid == os.getpid():
        raise UsageError(
            f"--pid {pid} is ci-doctor itself",
            hint="name the server, as in `--pid $!` right after its start",
        )
