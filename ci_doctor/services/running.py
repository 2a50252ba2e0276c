# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a group of services that runs, tells of the first death, and stops as a whole tree."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from ci_doctor.services import failure
from ci_doctor.services.outcome import EventKind, Process, ServiceEvent, ServiceFailure, StopResult
from ci_doctor.services.ports import ReservedPort, reserve_port
from ci_doctor.services.spec import Target
from ci_doctor.system import clock
from ci_doctor.system.process import Child, signal_name
from ci_doctor.system.process_table import Kin
from ci_doctor.system.tree import OwnTree, become_subreaper

_LONGEST_GRACE_S = 5.0
_STOP_LIMIT_S = 8.0  # the agent gives a cancelled job 10 s


class RunningService(Struct, frozen=True, kw_only=True):
    """A service that was started; `command` is as run. `target` is where it is asked whether it is ready."""

    name: str
    pid: int
    target: Target
    log: Path
    command: tuple[str, ...]

    @property
    def base_url(self) -> str:
        """`http://host:port`, where clients reach it."""
        host = f"[{self.target.host}]" if ":" in self.target.host else self.target.host
        return f"http://{host}:{self.target.port}"


class RunningGroup:
    """Services that run together; made by `start_group`.

    `services` are in start order. `death` is done as soon as one of them has ended by itself. Use one group at a time,
    inside a running event loop, and always `stop` it.
    """

    def __init__(self, names: Iterable[str], on_event: Callable[[ServiceEvent], None]) -> None:
        become_subreaper()
        self.services: dict[str, RunningService] = {}
        self.death: asyncio.Future[ServiceFailure] = asyncio.get_running_loop().create_future()
        self.tree = OwnTree()
        self._loop = asyncio.get_running_loop()
        self._on_event = on_event
        self._children: dict[str, Child] = {}
        self._watched: set[str] = set()
        self._ready: set[str] = set()
        self._told_to_stop: dict[str, float] = {}
        self._stopping: asyncio.Task[StopResult] | None = None
        self._result: StopResult | None = None
        self._ports: dict[str, ReservedPort] = {}
        for name in names:
            self._ports[name] = reserve_port()

    @property
    def endpoint(self) -> RunningService:
        """The service started last: the one that answers requests."""
        return list(self.services.values())[-1]

    @property
    def ports(self) -> dict[str, int]:
        """The port reserved for each service."""
        return {name: port.number for name, port in self._ports.items()}

    def add(self, service: RunningService, child: Child) -> None:
        """Take a process that was just started into the group, and watch it."""
        self.services[service.name] = service
        self._children[service.name] = child
        self.tree.reapers[child.pid] = child.returncode
        self._watched.add(service.name)
        self._loop.add_reader(child.pidfd, self._ended, service.name)
        self._tell(EventKind.STARTED, service.name)

    def mark_ready(self, name: str) -> None:
        """The service has answered its probe."""
        self._ready.add(name)
        self._tell(EventKind.READY, name, duration_s=self.subject(name, clock.now()).duration_s)

    def subject(self, name: str, at: float) -> failure.Subject:
        """The service as a failure speaks of it, as old as it is `at` that monotonic second."""
        service, child = self.services[name], self._children[name]
        return failure.Subject(
            name=name,
            pid=service.pid,
            port=service.target.port,
            log=service.log,
            was_ready=name in self._ready,
            duration_s=at - child.started_at,
        )

    async def stop(self, *, grace_s: float = _LONGEST_GRACE_S) -> StopResult:
        """SIGTERM to the whole tree, SIGKILL to what is left after `grace_s` (at most 5) seconds; 8 s at most in all.

        May be called again. When cancelled it kills at once, then lets the cancellation through.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(min(grace_s, _LONGEST_GRACE_S)))
        try:
            return await asyncio.shield(self._stopping)
        except asyncio.CancelledError:
            self.kill_now()
            raise

    def kill_now(self) -> StopResult:
        """SIGKILL to the whole tree, without the event loop's help: the last resort. May be called again."""
        return self._finish(clock.now())

    async def _stop(self, grace_s: float) -> StopResult:
        began = clock.now()
        try:
            self._stop_watching()
            await self.tree.terminate(grace_s)
        finally:
            result = self._finish(began)
        return result

    def _finish(self, began: float) -> StopResult:
        """Kill what is left, give everything back, and only then tell of it."""
        if self._result is not None:
            return self._result
        try:
            self._stop_watching()
        finally:
            outcome = self.tree.kill(max(1.0, began + _STOP_LIMIT_S - clock.now()))
            self._result = StopResult(
                killed=tuple(_as_process(kin) for kin in outcome.killed),
                survivors=tuple(_as_process(kin) for kin in outcome.survivors),
                duration_s=clock.now() - began,
            )
            self._give_back()
        self._tell_stopped(self._result)
        return self._result

    def _give_back(self) -> None:
        for child in self._children.values():
            child.close()
        for port in self._ports.values():
            port.release()

    def _stop_watching(self) -> None:
        """From now on the end of a service is no death."""
        names = [name for name in self.services if name in self._watched]
        self._watched.clear()
        for name in names:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._children[name].pidfd)
        for name in names:
            self._told_to_stop[name] = clock.now()
            self._tell(EventKind.STOPPING, name)

    def _ended(self, name: str) -> None:
        at = clock.now()
        child = self._children[name]
        self._watched.discard(name)
        self._loop.remove_reader(child.pidfd)
        returncode = child.wait()
        self.tree.reapers.pop(child.pid)  # from now on the pid may be anybody's
        subject = self.subject(name, at)
        if not self.death.done():
            self.death.set_result(failure.died(subject, returncode, self.tree))
        self._tell(EventKind.DIED, name, at=at, duration_s=subject.duration_s, returncode=returncode)

    def _tell_stopped(self, result: StopResult) -> None:
        names = {service.pid: service.name for service in self.services.values()}
        for process in result.killed:
            self._on_event(
                ServiceEvent(
                    kind=EventKind.KILLED,
                    service=names.get(process.pid),
                    at=clock.now(),
                    pid=process.pid,
                    name=process.name,
                    signal="SIGKILL",
                )
            )
        for name, at in self._told_to_stop.items():
            returncode = self._children[name].returncode()
            if returncode is not None:
                self._tell(EventKind.STOPPED, name, duration_s=clock.now() - at, returncode=returncode)

    def _tell(
        self,
        kind: EventKind,
        name: str,
        *,
        at: float | None = None,
        duration_s: float | None = None,
        returncode: int | None = None,
    ) -> None:
        service = self.services[name]
        self._on_event(
            ServiceEvent(
                kind=kind,
                service=name,
                at=clock.now() if at is None else at,
                pid=service.pid,
                log=str(service.log),
                duration_s=duration_s,
                exit_code=returncode if returncode is not None and returncode >= 0 else None,
                signal=signal_name(-returncode) if returncode is not None and returncode < 0 else None,
            )
        )


def _as_process(kin: Kin) -> Process:
    return Process(pid=kin.pid, name=kin.name)
