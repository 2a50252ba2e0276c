# SPDX-License-Identifier: Apache-2.0
"""Acts by watching only: waits until a process that somebody else has started is ready, or has died."""

import asyncio
import errno
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.services.descendants import DescendantPolicy
from ci_doctor.services.outcome import FailureKind, ServiceFailure
from ci_doctor.services.pidfile import await_pidfile
from ci_doctor.services.probes.ready import Probe
from ci_doctor.services.wait.external_watch import StrangerWatch, absent
from ci_doctor.system import clock
from ci_doctor.system.processes.external_process import ExternalProcess
from ci_doctor.system.processes.interruption import Interruption

_TICK_S = 0.25


class WaitRequest(Struct, frozen=True, kw_only=True):
    """What to wait for: the process `pid`, or the one that `pidfile` will name, and its `probe`, for `limit_s` seconds.

    `environment` and `directory` are what probes work with.
    """

    probe: Probe
    limit_s: float
    pid: int | None = None
    pidfile: Path | None = None
    log: Path | None = None
    descendants: DescendantPolicy = "signal"
    environment: Mapping[str, str] = {}
    directory: Path = Path()


class WaitProgress(Struct, frozen=True, kw_only=True):
    """How it stands: `seen` is why it is not ready yet."""

    name: str
    waited_s: float
    seen: str


class Waited(Struct, frozen=True, kw_only=True):
    """How it ended: ready, unless there is a `failure` or a signal was `received`. `waited_s` counts from our start.

    `seen` is what the probe saw last on the way.
    """

    name: str
    pid: int | None
    waited_s: float
    failure: ServiceFailure | None = None
    received: signal.Signals | None = None
    seen: str = ""


def run(
    request: WaitRequest, interruption: Interruption, tell: Callable[[WaitProgress], None]
) -> Waited:
    """Wait to the end, or until `interruption` has received a signal; `tell` is called four times a second.

    It is told of the first look that finds the process not ready at once. Raises UsageError where `request` cannot be
    waited for at all, InfraError where the system does not let us watch.
    """
    with asyncio.Runner() as runner:
        return runner.run(_Wait(request, tell).to_the_end(interruption))


class _Wait:
    """One wait under way."""

    def __init__(self, request: WaitRequest, tell: Callable[[WaitProgress], None]) -> None:
        self._request = request
        self._tell = tell
        self._began = clock.now()
        self._deadline = self._began + request.limit_s
        self._stranger: ExternalProcess | None = None
        self._name = f"pid {request.pid}" if request.pid is not None else str(request.pidfile)
        self._seen = ""

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
            if self._stranger is not None:
                self._stranger.close()

    async def _wait(self) -> ServiceFailure | None:
        found = await self._find()
        if isinstance(found, ServiceFailure):
            return found
        self._stranger, self._name = found, found.name
        watch = StrangerWatch(
            found, self._request.log, self._request.probe, self._request.descendants
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

    async def _find(self) -> ExternalProcess | ServiceFailure:
        pid: int | str | None = self._request.pid
        if self._request.pidfile is not None:
            pid = await await_pidfile(self._request.pidfile, self._request.limit_s)
        if not isinstance(pid, int):
            return self._nobody(f"no process was named within {self._request.limit_s:g} s: {pid}")
        self._name = f"pid {pid}"
        try:
            stranger = ExternalProcess.open(pid)
        except OSError as error:
            raise _cannot_watch(pid, error) from error
        return stranger or absent(pid, self._request.log, self._request.probe)

    def _nobody(self, message: str) -> ServiceFailure:
        return ServiceFailure(
            kind=FailureKind.NOT_READY,
            service=self._name,
            message=message,
            at=clock.now(),
            duration_s=clock.now() - self._began,
        )

    def _note(self, seen: str) -> None:
        first = not self._seen
        self._seen = seen
        if first:
            self._tell_now()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._tell_now()

    def _tell_now(self) -> None:
        self._tell(
            WaitProgress(name=self._name, waited_s=clock.now() - self._began, seen=self._seen)
        )

    def _waited(
        self, *, failure: ServiceFailure | None = None, received: signal.Signals | None = None
    ) -> Waited:
        return Waited(
            name=self._name,
            pid=self._stranger.pid if self._stranger is not None else self._request.pid,
            waited_s=clock.now() - self._began,
            failure=failure,
            received=received,
            seen=self._seen,
        )


def _cannot_watch(pid: int, error: OSError) -> UsageError | InfraError:
    if error.errno in {
        errno.EINVAL,
        errno.ENOENT,
    }:  # pidfd_open(2): EINVAL; ENOENT from Linux 6.10 on
        return UsageError(
            f"{pid} is the id of a thread, not of a process",
            hint="name the process; `ps -o pid,tid -L`",
        )
    return InfraError(
        f"cannot watch pid {pid}: {error.strerror}", hint="see pidfd_open(2), and `ulimit -n`"
    )
