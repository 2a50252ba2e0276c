# SPDX-License-Identifier: Apache-2.0
"""Acts on file descriptors: watches for the end of every service and of every process below it."""

import asyncio
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from ci_doctor.diagnosis.log_end import PREPARE_AFTER_S, prepare_in_background
from ci_doctor.model.facts.launch import NamedProcess, ServiceFailure
from ci_doctor.model.words import parse_duration
from ci_doctor.services import failure_cause
from ci_doctor.services.busy_timeout import BusyTimeout
from ci_doctor.services.descendants import (
    DescendantEnd,
    DescendantWatch,
    LimitWatches,
    allowance_of,
    follow,
    is_death,
    session_of,
)
from ci_doctor.services.instance import Death, EventKind, Instance, ServiceEvent, Subject
from ci_doctor.services.logs import LogWatch
from ci_doctor.system import clock
from ci_doctor.system.files.bounded_log import LogBound
from ci_doctor.system.processes.process_table import Kin, look_up
from ci_doctor.system.processes.tree import OwnTree

# Between two checks of the logs' sizes: a log that is not written needs few.
_LOG_CHECK_S = 0.25
_QUIET_LOG_CHECK_S = 1.0


class DeathWatch:
    """Watches the instances of a group inside a running loop.

    `on_event` gets every event, `on_failure` a failure for each death.
    """

    def __init__(
        self,
        tree: OwnTree,
        orphans_below: Callable[[], Collection[int]],
        on_event: Callable[[ServiceEvent], None],
        on_failure: Callable[[ServiceFailure], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._tree = tree
        self._on_event = on_event
        self._on_failure = on_failure
        # By name: a later start of a service takes the place of the earlier one.
        self._instances: dict[str, Instance] = {}
        self._bounds: list[LogBound] = []
        self._limits = LimitWatches()
        self._descendants = DescendantWatch(
            self._roots, self._descendant_ended, orphans_below=orphans_below
        )
        self._timer: asyncio.TimerHandle | None = None
        self._preparation: asyncio.TimerHandle | None = None

    def add(self, instance: Instance) -> None:
        """Watch a start from now on."""
        first = not self._instances
        # Before the first scan: what that finds below an unlisted service would belong to nobody.
        self._instances[instance.name] = instance
        # The checks go on by themselves, for the logs of later services too.
        if first:
            self._check_logs()
            self._preparation = self._loop.call_later(PREPARE_AFTER_S, prepare_in_background)
        self._descendants.start()
        log = instance.service.log
        self._bounds.append(LogBound(log, instance.spec.log_limit_bytes()))
        self._watch_process(instance)
        if instance.spec.fatal is None:
            return
        fatal = re.compile(instance.spec.fatal)

        def read(lines: Sequence[str]) -> None:
            for line in lines:
                if fatal.search(line) and not instance.stop_wanted and not instance.ended:
                    # After a fatal line the process gets time to end by itself: that end explains
                    # more. As old as it was at that line, not after the grace.
                    at = clock.now()
                    waiting = self._loop.create_task(self._after_grace(instance, line, at))
                    instance.cleanup.append(waiting.cancel)

        instance.cleanup.append(LogWatch(log, read).close)

    def forget(self, instance: Instance) -> None:
        """Report its end no more; may be called again."""
        if not instance.ended and not self._loop.is_closed():
            self._loop.remove_reader(instance.process.pidfd)
        if instance.following is not None:
            instance.following.cancel()
        while instance.cleanup:
            instance.cleanup.pop()()

    def processes_of(self, pid: int, *, alone: bool) -> tuple[Kin, ...]:
        """What belongs to the service with this pid now, orphans that were below it included.

        If it is `alone`, so does a daemon that left before anybody saw it below its parent.
        """
        self._descendants.scan_now()
        strays = self._descendants.below(pid)
        if alone:
            ours = os.getsid(0)  # the session of the client, which is no daemon
            unknown = self._descendants.below(None)
            strays += tuple(kin for kin in unknown if session_of(kin.pid) != ours)
        # By identity, because a process may be in both.
        processes = {}
        for kin in (*self._tree.below(pid), *strays):
            processes[kin.identity] = kin
        return tuple(processes.values())

    def limits_of(self, pid: int) -> Death:
        """What the limits of a service that lives have refused to it since the last look."""
        return self._limits.of(pid).death(None)

    def pids_of(self, pid: int) -> frozenset[int]:
        """The processes that were ever seen below `pid`, and itself."""
        return frozenset({pid, *self._descendants.of(pid)})

    def close(self) -> None:
        """Report nothing any more; may be called again."""
        self._descendants.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._preparation is not None:
            self._preparation.cancel()
        for instance in self._instances.values():
            self.forget(instance)

    def finish_logs(self) -> tuple[str, ...]:
        """Cut each log to its limit, once nobody writes any more.

        Returns a sentence for each that lost its middle.
        """
        sentences = []
        for bound in self._bounds:
            sentence = bound.finish()
            if sentence:
                sentences.append(sentence)
        # A second stop must not cut again what the first has cut.
        self._bounds.clear()
        return tuple(sentences)

    def _watch_process(self, instance: Instance) -> None:
        self._loop.add_reader(instance.process.pidfd, self._ended, instance)

    def _roots(self) -> Iterator[int]:
        for instance in self._instances.values():
            if not instance.ended:
                yield instance.process.pid

    def _check_logs(self) -> None:
        are_growing = False
        for bound in self._bounds:
            if bound.check():
                are_growing = True
        pause_s = _LOG_CHECK_S if are_growing else _QUIET_LOG_CHECK_S
        for instance in self._instances.values():
            if not instance.ended:
                self._limits.look(instance.process.pid)
                instance.allowed = allowance_of(instance.process.pid) or instance.allowed
        self._timer = self._loop.call_later(pause_s, self._check_logs)

    def _ended(self, instance: Instance) -> None:
        at = clock.now()
        # A pidfd stays readable after the end, and the loop would call this for ever.
        self._loop.remove_reader(instance.process.pidfd)
        instance.ended = True
        returncode = instance.process.wait()
        # Exit code 0 with a pidfile: the service has gone into the background, as it was meant to.
        if not instance.was_ready and returncode == 0 and instance.filled.pidfile is not None:
            instance.following = self._loop.create_task(self._follow(instance))
            return
        death = self._limits.of(instance.process.pid).death(returncode, instance.process.peak_rss)
        subject = instance.subject(at)
        kind = EventKind.STOPPED if instance.stop_wanted else EventKind.DIED
        event = instance.end_event(
            kind, at, death, duration_s=subject.duration_s, peak_rss=death.peak_rss
        )
        # The event first: to explain a death takes a look at its log and its port.
        self._on_event(event)
        if not instance.stop_wanted:
            self._on_failure(self._explain(instance, subject, death))

    def _explain(self, instance: Instance, subject: Subject, death: Death) -> ServiceFailure:
        # Only then: once a service was ready, nobody takes its end for the fork of a daemon.
        if death.returncode == 0 and not instance.was_ready:
            left = tuple(self._left_behind(subject.pid))
            if left:
                return failure_cause.went_to_background(subject, left)
        return failure_cause.died(subject, death, self._tree.living)

    def _left_behind(self, pid: int) -> list[int]:
        """What lives on of a process that has ended.

        Orphans of other services are among it if several are started at once.
        """
        living = []
        try:
            self._descendants.scan_now()
            for kin in (*self._descendants.below(pid), *self._descendants.below(None)):
                now = look_up(kin.pid)
                if kin.pid != pid and now is not None and not now.ended:
                    living.append(kin.pid)
        except OSError:
            # No file descriptor is left to look with: the death itself must be reported all the
            # same.
            return []
        return living

    async def _follow(self, instance: Instance) -> None:
        """The process has gone into the background: watch the one that its pidfile names."""
        instance.process.close()
        instance.process = await follow(instance, self._tree)
        instance.ended = False
        self._watch_process(instance)

    def _descendant_ended(self, root: int | None, end: DescendantEnd) -> None:
        instance = self._instance_of(root)
        # While a service is being stopped, its workers end too.
        if instance is None or instance.stop_wanted:
            return
        policy = instance.spec.descendants
        if policy == "ignore":
            return
        process = NamedProcess(pid=end.kin.pid, name=end.kin.name)
        death = self._limits.of(instance.process.pid).death(end.returncode)
        # By itself it is no death, but a client that fails then may have failed by it.
        is_known = process.pid in instance.at_ready
        if end.returncode and is_known and not end.root_ended and instance.lost is None:
            instance.lost = end.at, process, death
        dead = is_death(policy, end.returncode, root_ended=end.root_ended)
        by_signal_or_unknown = end.returncode is None or end.returncode < 0
        # A compiler that ends with 1 is not even worth an event.
        if not dead and not by_signal_or_unknown:
            return
        event = instance.end_event(
            EventKind.DESCENDANT_DIED, end.at, death, pid=process.pid, name=process.name
        )
        self._on_event(event)
        if dead:
            subject = instance.subject(end.at)
            self._on_failure(failure_cause.descendant_died(subject, process, death))

    def _instance_of(self, root: int | None) -> Instance | None:
        for instance in self._instances.values():
            if instance.process.pid == root:
                return instance
        return None

    async def _after_grace(self, instance: Instance, line: str, at: float) -> None:
        grace_s = parse_duration(instance.spec.fatal_grace)
        time_limit = BusyTimeout(grace_s, lambda: [instance.process.pid])
        await time_limit.sleep()
        if instance.ended or instance.stop_wanted:
            return
        subject = instance.subject(at)
        self._on_failure(failure_cause.wrote_fatal_line(subject, line))
