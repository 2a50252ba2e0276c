# SPDX-License-Identifier: Apache-2.0
"""Acts by watching only: one process that somebody else has started, what is below it, and whether it answers."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from ci_doctor.services import failure
from ci_doctor.services.descendants import DescendantPolicy, DescendantWatch, Ended, is_death
from ci_doctor.services.outcome import Process, ServiceFailure
from ci_doctor.services.probes.probe import ProbeContext, wait_until_ready
from ci_doctor.services.probes.ready import Probe, Scheme
from ci_doctor.services.wait.family import Family, impostor
from ci_doctor.system import clock
from ci_doctor.system.processes.external_process import ExternalProcess
from ci_doctor.system.processes.memory_events import MemoryEvents, oom_cause

if TYPE_CHECKING:
    from ci_doctor.system.processes.process import Child

_BEFORE = "before ci-doctor looked"
_KILL_S = 1.0


class StrangerWatch:
    """Watches `stranger` inside a running loop; `log` is where it writes, if that is known."""

    def __init__(
        self, stranger: ExternalProcess, log: Path | None, probe: Probe, policy: DescendantPolicy
    ) -> None:
        self._stranger = stranger
        self._log = log
        self._probe = probe
        self._policy = policy
        self._began = clock.now()
        self._was_dead = stranger.has_ended()
        self._scope = _memory_scope(stranger.pid)
        self._memory = MemoryEvents.read(self._scope)
        self._loop = asyncio.get_running_loop()
        # What explains the death, and not yet the explanation: what fails in a callback of the loop goes unheard.
        self._death: asyncio.Future[Callable[[], ServiceFailure]] = self._loop.create_future()
        self._descendants = DescendantWatch(lambda: (stranger.pid,), self._descendant_ended)
        self._family = Family(stranger, self._descendants)
        self._loop.add_reader(stranger.pidfd, self._ended)
        self._descendants.start()

    def close(self) -> None:
        """Watch no more; may be called again."""
        self._loop.remove_reader(self._stranger.pidfd)
        self._descendants.close()

    async def until_ready(
        self,
        limit_s: float,
        environment: Mapping[str, str],
        directory: Path,
        on_seen: Callable[[str], None],
    ) -> ServiceFailure | None:
        """None once it is ready and answers itself, else what is wrong with it."""
        if self._was_dead:
            return self._died(clock.now(), self._stranger.returncode(), _BEFORE)
        with _probe_context(self._probe, self._log, environment, directory) as context:
            probe = asyncio.create_task(
                wait_until_ready(self._probe, limit_s, context, on_seen=on_seen)
            )
            self._death.add_done_callback(lambda _: probe.cancel())
            try:
                await asyncio.wait({probe})
            finally:
                probe.cancel()
                await asyncio.wait({probe})  # an exec probe ends its command
        if self._death.done():
            return self._death.result()()
        seen = probe.result()
        owner = impostor(self._probe, self._family) if seen is None else None
        if self._stranger.has_ended():  # meanwhile
            return self._died(clock.now(), self._stranger.returncode())
        if owner is not None:
            return self._told(failure.answered_by_another(self._subject(clock.now()), owner))
        if seen is None:
            return None
        subject = structs.replace(self._subject(clock.now()), duration_s=clock.now() - self._began)
        return self._told(failure.not_ready(subject, seen))

    def _ended(self) -> None:
        at = clock.now()
        self._loop.remove_reader(self._stranger.pidfd)
        if not self._death.done():
            # At once: it is there to be read until the parent asks for it.
            self._death.set_result(partial(self._died, at, self._stranger.returncode()))

    def _died(self, at: float, returncode: int | None, when: str | None = None) -> ServiceFailure:
        death = self._how(returncode)
        return self._told(failure.died(self._subject(at, when), death, self._family))

    def _descendant_ended(self, root: int | None, ended: Ended) -> None:
        if root != self._stranger.pid or self._death.done():
            return
        process = Process(pid=ended.kin.pid, name=ended.kin.name)
        if is_death(self._policy, ended.returncode, root_ended=ended.root_ended):
            self._death.set_result(partial(self._lost_one, process, ended))

    def _lost_one(self, process: Process, ended: Ended) -> ServiceFailure:
        death = self._how(ended.returncode)
        return self._told(failure.descendant_died(self._subject(ended.at), process, death))

    def _how(self, returncode: int | None) -> failure.Death:
        """Only SIGKILL is how the kernel makes room."""
        cause = (
            oom_cause(self._memory, MemoryEvents.read(self._scope)) if returncode == -9 else None
        )
        return failure.Death(
            returncode=returncode,
            oom=cause.describe() if cause else None,
            host_oom=cause is not None and cause.host,
        )

    def _subject(self, at: float, when: str | None = None) -> failure.Subject:
        return failure.Subject(
            name=self._stranger.name,
            pid=self._stranger.pid,
            port=self._probe.port,
            log=self._log or Path(),
            was_ready=False,
            at=at,
            duration_s=at - self._stranger.started_at,
            when=when,
        )

    def _told(self, told: ServiceFailure) -> ServiceFailure:
        return told if self._log is not None else structs.replace(told, log=None)


def _memory_scope(pid: int) -> int | Literal["self"]:
    """Whose cgroup to ask. Our own, where it is the same: that of a process can be read only until it is reaped."""
    try:
        same = Path(f"/proc/{pid}/cgroup").read_text() == Path("/proc/self/cgroup").read_text()
    except OSError:
        return "self"
    return "self" if same else pid


class _Nobody:
    """The family of a process that is gone."""

    def living(self) -> tuple[()]:
        return ()


def absent(pid: int, log: Path | None, probe: Probe) -> ServiceFailure:
    """There is no process `pid`: it ended, and its parent has taken its exit code."""
    subject = failure.Subject(
        name=f"pid {pid}",
        pid=pid,
        port=probe.port,
        log=log or Path(),
        was_ready=False,
        at=clock.now(),
        duration_s=0.0,
        when=f"{_BEFORE}, or never was",
    )
    told = failure.died(subject, failure.Death(returncode=None), _Nobody())
    return told if log is not None else structs.replace(told, log=None)


@contextlib.contextmanager
def _probe_context(
    probe: Probe, log: Path | None, environment: Mapping[str, str], directory: Path
) -> Iterator[ProbeContext]:
    """What the probe works with; the commands of an exec probe, and what they leave behind, end with it."""
    if probe.scheme is not Scheme.EXEC:
        yield ProbeContext(log=log, environment=environment)
        return
    from ci_doctor.system.guardian.client import Guardian
    from ci_doctor.system.processes.tree import OwnTree

    guardian = Guardian.start()
    try:
        tree = OwnTree(guardian)

        def spawn(words: Sequence[str], output: int) -> "Child":
            return guardian.spawn(
                words, environment=environment, directory=directory, output=output
            )

        try:
            yield ProbeContext(log=log, environment=environment, spawn=spawn)
        finally:
            tree.kill(_KILL_S)
    finally:
        guardian.close()
