# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and the network: the phases of a check, on services that are ready."""

import asyncio
import contextlib
import functools
import signal
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from ci_doctor.load.sending import read_metrics
from ci_doctor.model.facts.restart_check import (
    ConditionResult,
    Counts,
    Moment,
    Phase,
    ProcessIdentity,
)
from ci_doctor.render.formatting import duration
from ci_doctor.restart.answers import Notes
from ci_doctor.restart.release import Release, resident
from ci_doctor.restart.settings import Condition, RestartPlan
from ci_doctor.restart.traffic import Traffic, Writes, one_pass, sender_of
from ci_doctor.services.busy_timeout import BusyTimeout, all_waits, before_death
from ci_doctor.services.instance import RunningService
from ci_doctor.services.probe import attempt, wait_until_ready
from ci_doctor.services.ready import ReadinessProbe, ReadySpec, Scheme, parse_ready
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext, fill, placeholders_for
from ci_doctor.system import clock
from ci_doctor.system.processes.process import is_ending
from ci_doctor.system.processes.tree_stop import send_signal

if TYPE_CHECKING:
    from ci_doctor.system.processes.process_table import Kin

# Between two reads of /metrics, which some servers compute anew each time.
_PAUSE_S = 0.08
_ATTEMPT_S = 2.0


async def all_results(
    group: RunningGroup,
    plan: RestartPlan,
    limit_s: float,
    *,
    before: Mapping[str, float],
    since: float,
) -> tuple[ConditionResult, ...]:
    """Wait for each condition of `plan` at most `limit_s` seconds.

    The seconds of a result count from the monotonic time `since`. `before` holds what a metric
    without `at_least` must come back to, by the condition's label.
    """

    async def one(condition: Condition) -> ConditionResult:
        if condition.metric is None:
            problem = await _probe(group, condition, plan.context, limit_s)
        else:
            wanted = condition.at_least
            wanted = before.get(condition.label) if wanted is None else wanted
            problem = await _metric(group, condition.service, condition.metric, limit_s, wanted)
        after_s = clock.now() - since if problem is None else None
        return ConditionResult(label=condition.label, after_s=after_s, problem=problem)

    # At the same time, so that each has the whole limit, and its seconds are its own.
    return tuple(await asyncio.gather(*map(one, plan.conditions)))


async def metrics_now(group: RunningGroup, conditions: Sequence[Condition]) -> dict[str, float]:
    """What the conditions without `at_least` must come back to, by label.

    A metric that is not there is left out.
    """
    values = {}
    for condition in conditions:
        if condition.metric is None or condition.at_least is not None:
            continue
        base_url = group.services[condition.service].base_url
        metrics = await read_metrics(base_url, _ATTEMPT_S)
        if metrics is not None and condition.metric in metrics:
            values[condition.label] = metrics[condition.metric]
    return values


async def _probe(
    group: RunningGroup, condition: Condition, context: LaunchContext, limit_s: float
) -> str | None:
    assert condition.ready is not None  # noqa: S101 - a condition has one of the two
    probe = _parsed(group, condition.service, condition.ready, context)
    # Looked up now: after a relaunch it is another start, with another log.
    instance = group.instances[condition.service]
    return await wait_until_ready(probe, limit_s, group.probe_context(instance))


def _parsed(
    group: RunningGroup, service: str, written: str | ReadySpec, context: LaunchContext
) -> ReadinessProbe:
    instance = group.instances[service]
    placeholders = placeholders_for(service, context, group.ports)
    return parse_ready(
        written,
        instance.service.port,
        directory=instance.filled.cwd,
        fill=lambda text: fill(text, placeholders),
    )


async def _metric(
    group: RunningGroup, service: str, metric: str, limit_s: float, wanted: float | None
) -> str | None:
    """None once it holds; without a wanted value, once the metric is there at all."""
    time_limit = BusyTimeout(limit_s, group.living_pids)
    while True:
        metrics = await read_metrics(group.services[service].base_url, _ATTEMPT_S)
        value = None if metrics is None else metrics.get(metric)
        if value is not None and (wanted is None or value >= wanted):
            return None
        # After the attempt: with a limit of 0 there is still one.
        if time_limit.left_s() <= 0:
            if metrics is None:
                return "/metrics did not answer"
            if value is None:
                return f"/metrics holds no {metric}"
            return f"{metric} is {value:g}, and {wanted:g} are wanted"
        await asyncio.sleep(_PAUSE_S)


# A throughput over less than this many seconds is mostly chance: the load is sent again until it
# took as long.
_MEASURED_S = 1.0
# A load of one short request would fill that second with thousands of passes.
_MOST_PASSES = 50
# A busy machine is slow for a moment, a server that has lost a worker stays so: what looks slow is
# measured again.
_SECOND_THOUGHTS = 2
# For a server that is still busy with the last load and answers its probe late.
_STILL_READY_S = 5.0
# Of the fraction `at`, in one try after another: a start or a stop may be shorter than the one measured.
_EARLIER = (1.0, 0.25, 0.0)
_OF_ONE_START = frozenset({Moment.BEFORE_READY, Moment.STOPPING})
_FLEETING = frozenset({Moment.BEFORE_READY, Moment.SAVING})
T = TypeVar("T")


class FailedError(Exception):
    """A service has failed by itself: nothing more can be checked."""


class Phases:
    """Everything is noted in `notes`; `all` may be used once."""

    def __init__(self, plan: RestartPlan, group: RunningGroup, notes: Notes) -> None:
        self._plan = plan
        self._group = group
        self._notes = notes
        self._ledger = notes.ledger
        self._before: dict[str, float] = {}
        self._writes = Writes(plan, group) if plan.load else None
        self._release: Release | None = None
        self._sender = sender_of(plan, group)
        self._waits = all_waits(group.living_pids)
        # The orderly stop that is under way, or the start.
        self._stop: asyncio.Task[None] | None = None
        self._start: asyncio.Task[Any] | None = None
        self._held = 0
        self._since = 0.0
        self._frozen: tuple[Kin, ...] = ()
        self._stop_s = 0.0
        self._start_s = 0.0

    async def all(self) -> None:
        """Raises FailedError if a service fails by itself, and InfraError as `ask`."""
        if not await self._while_all_live(self._baseline()):
            return
        self._notes.phase = Phase.KILL
        if self._writes is not None:
            try:
                written = await self._while_all_live(
                    self._writes.reached(self._plan.terms.recovery_timeout_s)
                )
            except asyncio.CancelledError:
                self._notes.note(writes=self._writes.so_far())
                raise
            if written is not None:  # too few to learn anything from a kill
                self._notes.note(writes=written)
                return
        traffic = Traffic(
            self._sender,
            self._plan.requests,
            self._ledger.keep,
            reached_at=self._plan.kill_when_done,
        )
        # One load over kill, outage and recovery: only requests that are under way at a kill show
        # whether clients hang.
        async with traffic:
            if not await self._while_all_live(self._kill(traffic)):
                return
            came_back = await self._while_all_live(self._recover(traffic))
            await self._while_all_live(traffic.drain())
        if came_back:
            self._notes.phase = Phase.AFTER
            await self._while_all_live(self._after())
            # What the end left and the next start took back is not lost: only now it has had its chance.
            if self._release is not None:
                self._notes.note(released=self._release.after_relaunch())

    async def _while_all_live(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` to its end, or to the first death of a service, which is raised."""
        (task,) = await before_death(self._group.death, work)
        # Before the result: what the work has seen after a death is not worth reporting.
        if self._group.death.done():
            raise FailedError
        return task.result()

    async def _baseline(self) -> bool:
        """Whether the services do what they should while nothing is wrong.

        Otherwise a kill would prove nothing.
        """
        results = await self._conditions(clock.now(), self._plan.terms.recovery_timeout_s)
        missing = _missing(results)
        if missing:
            self._notes.note(unready_before=missing)
            return False
        await self._measure(Phase.BASELINE)
        self._say_rate(Phase.BASELINE)
        # After the load, because a metric may count what was served.
        self._before = await metrics_now(self._group, self._plan.conditions)
        counts = self._ledger.counts.get(Phase.BASELINE, Counts())
        if counts.ok < counts.sent:
            return False
        if self._plan.moment not in _OF_ONE_START:
            return True
        # Before the writes: a load may end with its connection.
        unreached = await self._measure_restart()
        self._notes.note(unreached=unreached)
        return unreached is None

    async def _measure(self, phase: Phase) -> None:
        """Send the load `passes` times, and again until that took a while.

        A request without an answer ends it: the rate would mean nothing.
        """
        if not self._plan.requests:
            return
        made = 0
        spent_s = 0.0
        keep = functools.partial(self._ledger.keep, phase)
        while made < self._plan.settings.passes or (spent_s < _MEASURED_S and made < _MOST_PASSES):
            before = self._ledger.ok(phase)
            waited = self._waits.now()
            seconds = await one_pass(self._sender, self._plan.requests, keep)
            answered = self._ledger.ok(phase) - before
            self._ledger.passed(phase, answered, seconds, self._waits.since(waited))
            made += 1
            spent_s += seconds
            if answered < len(self._plan.requests):
                break

    async def _kill(self, traffic: Traffic) -> bool:
        """Until the service is dead, has released what it held, and the outage has lasted.

        False if the moment for the signal did not come, and nothing was killed.
        """
        plan, name = self._plan, self._plan.terms.kill
        await traffic.reached()
        if plan.moment is not Moment.UNDER_LOAD:
            traffic.go_on()
        problem = None
        for part in _EARLIER if plan.moment in _OF_ONE_START else (1.0,):
            problem = await self._approach(part * plan.settings.at)
            into_s = clock.now() - self._since
            if problem is None and plan.moment in _FLEETING:
                self._freeze()
            problem = problem or await self._missed(into_s)
            if problem is None:
                break
            self._notes.say(f"not {plan.moment}: {problem}")
        else:
            self._notes.note(unreached=problem)
            return False
        if plan.moment is not Moment.UNDER_LOAD:
            self._notes.note(into_s=into_s)
        service = self._group.services[name]
        self._notes.note(killed_at=traffic.done, old=_identity(service))
        self._notes.say(f"{plan.signal.name} to {name} at {self._done(traffic)}")
        if self._writes is not None:
            self._writes.killed()
        # Clients do not stop because a server is gone: from here on the load begins again and
        # again.
        traffic.go_on()
        began = clock.now()
        await self._take_down()
        died = clock.now()
        self._notes.note(ended_s=died - began)
        self._ledger.lasted(Phase.KILL, died - traffic.began)
        self._notes.phase = traffic.phase = Phase.OUTAGE
        release = Release(
            self._group,
            service,
            self._held,
            died,
            checks_memory=plan.settings.shared_memory,
            gpu_before=self._notes.gpu_before,
        )
        await self._outage(release, died)
        return True

    async def _measure_restart(self) -> str | None:
        """Stop it in order and start it again, and note for how long; why that was not possible."""
        problem = await self._stop_in_order()
        if problem is not None:
            # What never ends is still stopping whenever the signal comes.
            if self._plan.moment is not Moment.STOPPING:
                return problem
            await self._group.take_down(self._plan.terms.kill, signal.SIGKILL)
        self._notes.note(stop_s=self._stop_s)
        began = clock.now()
        problem = await self._back_again()
        self._start_s = clock.now() - began
        self._notes.note(start_s=self._start_s)
        return problem

    async def _stop_in_order(self) -> str | None:
        """None once it has ended by `stop_signal`."""
        name, limit_s = self._plan.terms.kill, self._plan.terms.release_timeout_s
        stop = asyncio.create_task(self._group.take_down(name, self._plan.stop_signal))
        # It looks at the processes first, and then sends the signal.
        await asyncio.sleep(0)
        began = clock.now()
        try:
            if await self._time_limit(limit_s).wait(stop):
                stop.result()
                return None
        finally:
            self._stop_s = clock.now() - began
            await _cancelled(stop)
        return f"{name} had not ended {limit_s:g} s after {self._plan.stop_signal.name}"

    async def _back_again(self) -> str | None:
        """None once it is ready again after an orderly stop, and every condition holds."""
        time_limit = self._time_limit(self._plan.terms.recovery_timeout_s)
        problem = await self._relaunch(time_limit)
        if problem is None:
            for result in _missing(await self._conditions(clock.now(), time_limit.left_s())):
                problem = f"{result.label}: {result.problem}"
        return None if problem is None else f"after an orderly stop it did not come back: {problem}"

    async def _approach(self, fraction: float) -> str | None:
        """None once the service is where the signal is to hit it, or why it did not get there.

        `fraction` is of the seconds that an orderly stop took, or a start.
        """
        name, moment = self._plan.terms.kill, self._plan.moment
        # It has ended in the try before.
        if self._stop is not None and (problem := await self._back_again()) is not None:
            return problem
        # Before the signal: afterwards there is nobody to look at.
        self._held = resident(self._group.tree.below(self._group.services[name].pid))
        if moment is Moment.SAVING:
            return await self._until_saving()
        if moment is Moment.STOPPING:
            self._stop = asyncio.create_task(self._group.take_down(name, self._plan.stop_signal))
            # It looks at the processes first, and then sends the signal.
            await asyncio.sleep(0)
            self._since = clock.now()
            await asyncio.wait({self._stop}, timeout=fraction * self._stop_s)
        if moment is Moment.BEFORE_READY:
            if (problem := await self._stop_in_order()) is not None:
                return problem
            self._since = clock.now()
            # It is started at once, and then waited for.
            self._start = asyncio.create_task(self._group.relaunch(name))
            await asyncio.wait({self._start}, timeout=fraction * self._start_s)
        return None

    def _freeze(self) -> None:
        """Stop the service's processes until the signal is sent: to look at them takes longer than a save."""
        pidfd = self._group.instances[self._plan.terms.kill].process.pidfd
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
        self._frozen = self._group.tree.below(self._group.services[self._plan.terms.kill].pid)
        for kin in self._frozen:
            send_signal(kin, signal.SIGSTOP)

    async def _missed(self, after_s: float) -> str | None:
        """None while the signal comes in time, or what has ended before it."""
        name = self._plan.terms.kill
        service, after = self._group.services[name], duration(after_s)
        if self._stop is not None and (
            self._stop.done() or is_ending(service.pid, service.started)
        ):
            await self._stop
            return f"{name} had ended {after} after {self._plan.stop_signal.name}"
        if self._start is not None:
            # The start is given up first: its probe must not answer a moment before the signal.
            await _cancelled(self._start)
            if self._group.instances[name].was_ready:
                self._thaw()
                return f"{name} was ready {after} after its start"
        return None

    def _thaw(self) -> None:
        for kin in self._frozen:
            send_signal(kin, signal.SIGCONT)
        self._frozen = ()

    async def _until_saving(self) -> str | None:
        """None at the moment in which `saving` begins to hold."""
        plan, name = self._plan, self._plan.terms.kill
        assert plan.settings.saving is not None  # noqa: S101 - the plan has been checked
        instance = self._group.instances[name]
        probe = _parsed(self._group, name, plan.settings.saving, plan.context)
        context = self._group.probe_context(instance)
        context = structs.replace(context, log_from=instance.service.log.stat().st_size)
        time_limit = self._time_limit(plan.terms.recovery_timeout_s)
        # What holds all the time tells nothing. A log is searched from here on, and holds once it has matched.
        if not any(leaf.scheme is Scheme.LOG for leaf in probe.leaves()):
            while await attempt(probe, context) is None:
                if time_limit.left_s() <= 0:
                    return f"`saving` held all the time: {probe.describe()}"
                await asyncio.sleep(_PAUSE_S)
        problem = await wait_until_ready(probe, time_limit, context)
        self._since = clock.now()
        return None if problem is None else f"`saving` did not hold: {problem}"

    def _done(self, traffic: Traffic) -> str:
        done = []
        if self._plan.requests:
            of_all = f" of {len(self._plan.requests)}"
            is_one_load = self._plan.moment is Moment.UNDER_LOAD
            done.append(f"{traffic.done}{of_all if is_one_load else ''} requests")
        if self._writes is not None:
            done.append(f"{self._plan.terms.acknowledged} acknowledged writes or more")
        return ", ".join(done)

    async def _outage(self, release: Release, died: float) -> None:
        plan = self._plan
        self._release = release
        # At the same time: the outage is from the end to the relaunch, whatever is released
        # meanwhile.
        wait = release.wait(plan.terms.release_timeout_s)
        released, _ = await asyncio.gather(wait, asyncio.sleep(plan.outage_s))
        outage_s = clock.now() - died
        self._notes.note(released=released, outage_s=outage_s)
        self._ledger.lasted(Phase.OUTAGE, outage_s)
        counts = self._ledger.counts[Phase.OUTAGE]
        answers = f": {counts.ok} requests ok, {counts.failed} failed" if plan.requests else ""
        self._notes.say(f"{outage_s:.1f} s without {plan.terms.kill}{answers}")

    async def _take_down(self) -> None:
        """Until the process has ended: by the signal or, if it does not, by SIGKILL."""
        name = self._plan.terms.kill
        ending = self._stop
        if ending is None:
            ending = asyncio.create_task(self._group.take_down(name, self._plan.signal))
            # It is sent at once, and then waited for.
            await asyncio.sleep(0)
            self._thaw()
        else:
            with contextlib.suppress(ProcessLookupError):
                pidfd = self._group.instances[name].process.pidfd
                signal.pidfd_send_signal(pidfd, self._plan.signal)
        try:
            if await self._time_limit(self._plan.terms.release_timeout_s).wait(ending):
                ending.result()
                return
        finally:
            await _cancelled(ending)
        self._notes.note(refused=True)
        await self._group.take_down(name, signal.SIGKILL)

    async def _recover(self, traffic: Traffic) -> bool:
        """Whether the service and every condition came back in time."""
        self._notes.phase = traffic.phase = Phase.RECOVERY
        began = clock.now()
        time_limit = self._time_limit(self._plan.terms.recovery_timeout_s)
        try:
            problem = await self._relaunch(time_limit)
            if problem is not None:
                self._notes.note(not_ready=problem)
                return False
            ready_s = clock.now() - began
            new = _identity(self._group.services[self._plan.terms.kill])
            self._notes.note(ready_s=ready_s, new=new)
            results = await self._conditions(began, time_limit.left_s())
            self._notes.note(conditions=results)
            if _missing(results):
                return False
            recovered_s = clock.now() - began
            self._notes.note(recovered_s=recovered_s)
        finally:
            # Also after a death or a cancellation, so that the rate of the phase is right.
            self._ledger.lasted(Phase.RECOVERY, clock.now() - began)
        self._notes.say(f"recovered {recovered_s:.1f} s after the relaunch")
        return True

    async def _relaunch(self, time_limit: BusyTimeout) -> str | None:
        """None once the service itself is ready again in time, or what was wrong last.

        A failure of its own is a death in the group.
        """
        name = self._plan.terms.kill
        relaunch = asyncio.create_task(self._group.relaunch(name))
        try:
            if await time_limit.wait(relaunch):
                relaunch.result()
                return None
        finally:
            await _cancelled(relaunch)
        # The cancelled relaunch takes its result with it. The last attempt that had its full time
        # says more than a quick one now.
        problem = await self._group.still_ready(name, 0.0)
        if problem is not None:
            problem = self._group.instances[name].answer or problem
        return problem or "it answered its probe only after the time was up"

    async def _conditions(self, since: float, limit_s: float) -> tuple[ConditionResult, ...]:
        return await all_results(self._group, self._plan, limit_s, before=self._before, since=since)

    def _time_limit(self, limit_s: float) -> BusyTimeout:
        return BusyTimeout(limit_s, self._group.living_pids)

    async def _after(self) -> None:
        if self._writes is not None:
            # Before the requests, which may write as well.
            verified = await self._writes.verified(self._plan.terms.recovery_timeout_s)
            self._notes.note(writes=verified)
            kept = verified.acknowledged - verified.lost_count
            self._notes.say(
                verified.problem
                or f"{kept} of {verified.acknowledged} acknowledged writes are there"
            )
        await self._measure(Phase.AFTER)
        for _ in range(_SECOND_THOUGHTS):
            if not self._looks_slow():
                break
            await self._measure(Phase.AFTER)
        self._say_rate(Phase.AFTER)
        # A server that ends with its last answer is not always dead yet when that arrives.
        # Each service once: the killed one is often the one that answers.
        for name in dict.fromkeys((self._plan.terms.kill, self._group.endpoint.name)):
            problem = await self._group.still_ready(name, _STILL_READY_S)
            if problem is not None:
                self._notes.note(no_longer_ready=f"{name} is not ready any more: {problem}")

    def _looks_slow(self) -> bool:
        if not self._plan.requests:
            return False
        before = self._ledger.counts[Phase.BASELINE]
        after = self._ledger.counts[Phase.AFTER]
        if after.ok < after.sent:  # that is the reason, and is reported itself
            return False
        least = self._plan.terms.throughput * (before.rate or 0.0)
        return (after.rate or 0.0) < least

    def _say_rate(self, phase: Phase) -> None:
        if not self._plan.requests:
            return
        counts = self._ledger.counts[phase]
        rate = counts.rate or 0
        answered = f"{counts.ok} of {counts.sent} requests answered"
        self._notes.say(f"{answered}, {rate:.1f} a second")


async def _cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    # Awaited as well: a cancelled task still has its clean-up to do, and must not do it later.
    await asyncio.gather(task, return_exceptions=True)


def _missing(results: Iterable[ConditionResult]) -> tuple[ConditionResult, ...]:
    return tuple(result for result in results if result.after_s is None)


def _identity(service: RunningService) -> ProcessIdentity:
    return ProcessIdentity(pid=service.pid, started=service.started)
