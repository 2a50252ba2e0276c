# SPDX-License-Identifier: Apache-2.0
"""Acts on file descriptors: waits until an external process is ready, or has died."""

import asyncio
import errno
import signal
from collections.abc import Callable, Iterable

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.model.service import FailureKind, ServiceFailure
from ci_doctor.services.pidfile import await_pidfile, check_age
from ci_doctor.services.wait.external_watch import ExternalWatch, absent
from ci_doctor.services.wait.waited import Waited, WaitProgress, WaitRequest
from ci_doctor.system import clock
from ci_doctor.system.processes.external_process import ExternalProcess
from ci_doctor.system.processes.interruption import Interruption

# For a terminal: a clock that a reader sees move, without a redraw that costs CPU.
_TICK_S = 0.25


def wait_for(
    request: WaitRequest, interruption: Interruption, on_progress: Callable[[WaitProgress], None]
) -> Waited:
    """Wait to the end, or until `interruption` has received a signal.

    `on_progress` is called four times a second, and at once for the first answer that is not good.
    Raises UsageError if nobody can wait for `request` at all, InfraError if the system does not let
    us watch.
    """
    with asyncio.Runner() as runner:
        return runner.run(_Wait(request, on_progress).to_the_end(interruption))


class _Wait:
    """One wait under way."""

    def __init__(self, request: WaitRequest, on_progress: Callable[[WaitProgress], None]) -> None:
        self._request = request
        self._on_progress = on_progress
        self._began = clock.now()
        self._deadline = self._began + request.limit_s
        self._processes: list[ExternalProcess] = []
        self._name = _and(f"pid {pid}" for pid in request.pids) or str(request.pidfile)
        self._answer = ""

    async def to_the_end(self, interruption: Interruption) -> Waited:
        """Ready, dead, out of time, or interrupted."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are in one
        ticking = asyncio.create_task(self._tick())
        try:
            with interruption.watch(task):
                return self._waited(failure=await self._wait())
        except asyncio.CancelledError:
            if interruption.received is None:
                raise
            return self._waited(received=interruption.received)
        finally:
            ticking.cancel()
            for process in self._processes:
                process.close()

    async def _wait(self) -> ServiceFailure | None:
        failure = await self._open()
        if failure is not None:
            return failure
        self._name = _and(process.name for process in self._processes)
        watch = ExternalWatch(
            self._processes, self._request.log, self._request.probe, self._request.descendants
        )
        try:
            return await watch.until_ready(
                self._deadline - clock.now(),
                self._request.environment,
                self._request.directory,
                self._note,
            )
        finally:
            watch.close()

    async def _open(self) -> ServiceFailure | None:
        """Open the processes to wait for; why there is none."""
        pids = self._request.pids
        pidfile = self._request.pidfile
        if pidfile is not None:
            pid = await await_pidfile(pidfile, self._request.limit_s)
            if not isinstance(pid, int):
                limit = f"{self._request.limit_s:g} s"
                return self._nobody(f"no process was named within {limit}: {pid}")
            pids = (pid,)
            self._name = f"pid {pid}"
        for pid in pids:
            try:
                process = ExternalProcess.open(pid)
            except OSError as error:
                raise _cannot_watch(pid, error) from error
            if process is None:
                return absent(pid, self._request.log, self._request.probe)
            self._processes.append(process)
            if pidfile is not None:
                check_age(pidfile, process)
        return None

    def _nobody(self, message: str) -> ServiceFailure:
        now = clock.now()
        return ServiceFailure(
            kind=FailureKind.NOT_READY,
            service=self._name,
            message=message,
            at=now,
            duration_s=now - self._began,
        )

    def _note(self, answer: str) -> None:
        # Not only with the next tick: a wait may end before that.
        is_first = not self._answer
        self._answer = answer
        if is_first:
            self._report()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._report()

    def _report(self) -> None:
        waited_s = clock.now() - self._began
        progress = WaitProgress(name=self._name, waited_s=waited_s, answer=self._answer)
        self._on_progress(progress)

    def _waited(
        self, *, failure: ServiceFailure | None = None, received: signal.Signals | None = None
    ) -> Waited:
        # With a pidfile, nobody named a pid before.
        pids = [process.pid for process in self._processes] or self._request.pids
        return Waited(
            name=self._name,
            pid=next(iter(pids), None),
            waited_s=clock.now() - self._began,
            failure=failure,
            received=received,
            answer=self._answer,
        )


def _and(names: Iterable[str]) -> str:
    return " and ".join(names)


def _cannot_watch(pid: int, error: OSError) -> UsageError | InfraError:
    # pidfd_open(2): EINVAL; ENOENT from Linux 6.10 on
    if error.errno in {errno.EINVAL, errno.ENOENT}:
        return UsageError(
            f"{pid} is the id of a thread, not of a process",
            hint="name the process; `ps -o pid,tid -L`",
        )
    return InfraError(
        f"cannot watch pid {pid}: {error.strerror}", hint="see pidfd_open(2), and `ulimit -n`"
    )
