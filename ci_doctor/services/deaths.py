# SPDX-License-Identifier: Apache-2.0
"""Acts on file descriptors: knows the end of every service and of every process below it, and says whose fault it is."""

import asyncio
import functools
import signal
from collections.abc import Callable, Iterable, Sequence

from ci_doctor.model.duration import parse_duration
from ci_doctor.services import failure
from ci_doctor.services.descendants import DescendantWatch, Ended, is_death
from ci_doctor.services.following import follow
from ci_doctor.services.instance import Instance
from ci_doctor.services.logs.bound import LogBound
from ci_doctor.services.logs.watch import FatalLine, LogWatch
from ci_doctor.services.outcome import EventKind, NamedProcess, ServiceEvent, ServiceFailure
from ci_doctor.system import clock
from ci_doctor.system.processes.memory_events import MemoryEvents, oom_cause
from ci_doctor.system.processes.process_table import Kin, look_up
from ci_doctor.system.processes.tree import OwnTree

# Between two looks at the sizes of the logs: a log that is not written needs few.
_LOG_CHECK_S = 0.25
_QUIET_LOG_CHECK_S = 1.0


class DeathWatch:
    """Watches the instances of a group inside a running loop; `fail` gets a failure for each death, `tell` the events."""

    def __init__(
        self,
        tree: OwnTree,
        orphans_below: Callable[[], int],
        tell: Callable[[ServiceEvent], None],
        fail: Callable[[ServiceFailure], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._tree = tree
        self._tell = tell
        self._fail = fail
        self._instances: dict[str, Instance] = {}
        self._bounds: list[LogBound] = []
        self._memory = MemoryEvents.read()
        self._descendants = DescendantWatch(
            self._roots, self._descendant_ended, orphans_below=orphans_below
        )
        self._timer: asyncio.TimerHandle | None = None

    def add(self, instance: Instance) -> None:
        """Watch a start from now on."""
        first = not self._instances
        # Before the first look: what that finds below a service it does not know would belong to nobody.
        self._instances[instance.name] = instance
        if first:
            self._check_logs()
        self._descendants.start()
        self._bounds.append(LogBound(instance.service.log, instance.spec.log_limit_bytes()))
        self._watch_process(instance)
        if instance.spec.fatal is not None:
            watch = LogWatch(
                instance.service.log,
                functools.partial(self._read, instance, FatalLine(instance.spec.fatal)),
            )
            instance.cleanup.append(watch.close)

    def forget(self, instance: Instance) -> None:
        """Its end is no news any more; may be called again."""
        if not instance.ended and not self._loop.is_closed():
            self._loop.remove_reader(instance.process.pidfd)
        if instance.following is not None:
            instance.following.cancel()
        while instance.cleanup:
            instance.cleanup.pop()()

    def strays(self, pid: int) -> tuple[Kin, ...]:
        """What was seen below `pid` and has since become an orphan, or is about to."""
        self._descendants.scan_now()
        return self._descendants.below(pid)

    def close(self) -> None:
        """Nothing is news any more; may be called again."""
        self._descendants.close()
        if self._timer is not None:
            self._timer.cancel()
        for instance in self._instances.values():
            self.forget(instance)

    def finish_logs(self) -> tuple[str, ...]:
        """Cut each log to its limit, once nobody writes any more; says which ones lost their middle."""
        cut = [told for bound in self._bounds if (told := bound.finish())]
        self._bounds.clear()
        return tuple(cut)

    def _watch_process(self, instance: Instance) -> None:
        self._loop.add_reader(instance.process.pidfd, self._ended, instance)

    def _roots(self) -> Iterable[int]:
        return [each.process.pid for each in self._instances.values() if not each.ended]

    def _check_logs(self) -> None:
        written = [bound.check() for bound in self._bounds]
        self._timer = self._loop.call_later(
            _LOG_CHECK_S if any(written) else _QUIET_LOG_CHECK_S, self._check_logs
        )

    def _ended(self, instance: Instance) -> None:
        at = clock.now()
        self._loop.remove_reader(instance.process.pidfd)
        instance.ended = True
        returncode = instance.process.wait()
        if not instance.was_ready and returncode == 0 and instance.filled.pidfile is not None:
            instance.following = self._loop.create_task(self._follow(instance))
            return
        death = self._death(returncode, instance.process.peak_rss)
        subject = instance.subject(at)
        kind = EventKind.STOPPED if instance.wanted else EventKind.DIED
        self._tell(
            instance.event(
                kind,
                at,
                returncode=returncode,
                duration_s=subject.duration_s,
                peak_rss=death.peak_rss,
                oom=death.oom,
            )
        )
        if not instance.wanted:
            self._fail(self._explain(instance, subject, death))

    def _explain(
        self, instance: Instance, subject: failure.Subject, death: failure.Death
    ) -> ServiceFailure:
        if (
            death.returncode == 0
            and not instance.was_ready
            and (left := self._left_behind(subject.pid))
        ):
            return failure.went_to_background(subject, left)
        return failure.died(subject, death, self._tree)

    def _left_behind(self, pid: int) -> tuple[int, ...]:
        """What lives on of a process that has ended; nobody else's, where several are started at once."""
        try:
            self._descendants.scan_now()
            found = (*self._descendants.below(pid), *self._descendants.below(None))
            now = ((kin, look_up(kin.pid)) for kin in found if kin.pid != pid)
            return tuple(kin.pid for kin, seen in now if seen is not None and not seen.ended)
        except (
            OSError
        ):  # no file descriptor is left to look with: the death itself must be told all the same
            return ()

    async def _follow(self, instance: Instance) -> None:
        """The process has gone into the background: watch the one that its pidfile names."""
        instance.process.close()
        instance.process = await follow(instance, self._tree)
        instance.ended = False
        self._watch_process(instance)

    def _descendant_ended(self, root: int | None, ended: Ended) -> None:
        instance = next(
            (each for each in self._instances.values() if each.process.pid == root), None
        )
        if instance is None or instance.wanted or instance.spec.descendants == "ignore":
            return
        policy = instance.spec.descendants
        dead = is_death(policy, ended.returncode, root_ended=ended.root_ended)
        if not dead and ended.returncode is not None and ended.returncode >= 0:
            return
        process = NamedProcess(pid=ended.kin.pid, name=ended.kin.name)
        death = self._death(ended.returncode, None)
        self._tell(
            instance.event(
                EventKind.DESCENDANT_DIED,
                ended.at,
                returncode=ended.returncode,
                pid=process.pid,
                name=process.name,
                oom=death.oom,
            )
        )
        if dead:
            self._fail(failure.descendant_died(instance.subject(ended.at), process, death))

    def _death(self, returncode: int | None, peak_rss: int | None) -> failure.Death:
        """Only SIGKILL is how the kernel makes room."""
        cause = None
        if returncode == -signal.SIGKILL:
            before, self._memory = self._memory, MemoryEvents.read()
            cause = oom_cause(before, self._memory)
        return failure.Death(
            returncode=returncode,
            peak_rss=peak_rss,
            oom=cause.describe() if cause else None,
            host_oom=cause is not None and cause.host,
        )

    def _read(self, instance: Instance, fatal: FatalLine, lines: Sequence[str]) -> None:
        for line in lines:
            if fatal.matches(line):
                self._said(instance, line)

    def _said(self, instance: Instance, line: str) -> None:
        """A fatal line: the process gets a short grace to end by itself, and then its end tells more."""
        if not instance.wanted and not instance.ended:
            timer = self._loop.call_later(
                parse_duration(instance.spec.fatal_grace),
                self._still_there,
                instance,
                line,
                clock.now(),
            )
            instance.cleanup.append(timer.cancel)

    def _still_there(self, instance: Instance, line: str, at: float) -> None:
        if not instance.ended and not instance.wanted:
            self._fail(failure.said_fatal(instance.subject(at), line))
