# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and the network: the phases of a check, one after the other, on services that are ready."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from ci_doctor.load.sending import Sender
from ci_doctor.restart.conditions import all_held, metrics_now
from ci_doctor.restart.footprint import footprint
from ci_doctor.restart.notes import Notes
from ci_doctor.restart.observed import ConditionResult, Phase, ProcessIdentity
from ci_doctor.restart.release import Release
from ci_doctor.restart.settings import RestartPlan
from ci_doctor.restart.traffic import Traffic, one_pass
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext
from ci_doctor.system import clock

# A throughput over less than this many seconds is mostly chance: the load is sent again until it took as long.
_MEASURED_S = 1.0
_MOST_PASSES = 50
# A busy machine is slow for a moment, a server that has lost a worker stays so: what looks slow is measured again.
_SECOND_THOUGHTS = 2
_STILL_READY_S = 5.0
T = TypeVar("T")


class FailedError(Exception):
    """A service has failed by itself: nothing more can be checked."""


class Phases:
    """Everything is noted in `notes`; `all` may be used once."""

    def __init__(
        self, plan: RestartPlan, group: RunningGroup, context: LaunchContext, notes: Notes
    ) -> None:
        self._plan = plan
        self._group = group
        self._context = context
        self._notes = notes
        self._ledger = notes.ledger
        self._before: dict[str, float] = {}
        self._sender = Sender(
            base_url=group.endpoint.base_url,
            concurrency=plan.concurrency,
            timeout_s=plan.request_timeout_s,
        )

    async def all(self) -> None:
        """Raises FailedError where a service fails by itself, and InfraError as `ask`."""
        if not await self._while_all_live(self._baseline()):
            return
        self._notes.phase = Phase.KILL
        traffic = Traffic(
            self._sender,
            self._plan.requests,
            self._ledger.keep,
            reached_at=self._plan.kill_when_done,
        )
        async with traffic:
            await self._while_all_live(self._kill(traffic))
            came_back = await self._while_all_live(self._recover(traffic))
            await self._while_all_live(traffic.drain())
        if came_back:
            self._notes.phase = Phase.AFTER
            await self._while_all_live(self._after())

    async def _while_all_live(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` to its end, or to the first death of a service, which is raised."""
        task = asyncio.create_task(work)
        death = self._group.death

        def cancel(_: object) -> None:
            task.cancel()

        # A done callback, because waiting on `death` itself would cancel it with us.
        death.add_done_callback(cancel)
        try:
            await asyncio.wait({task})
        finally:
            death.remove_done_callback(cancel)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if death.done():
            raise FailedError
        return task.result()

    async def _baseline(self) -> bool:
        """Whether the services do what they should while nothing is wrong; else a kill would prove nothing."""
        held = await self._held(clock.now())
        missing = tuple(each for each in held if each.after_s is None)
        if missing:
            self._notes.note(unready_before=missing)
            return False
        await self._measure(Phase.BASELINE)
        counts = self._ledger.counts[Phase.BASELINE]
        self._notes.say(
            f"{counts.ok} of {counts.sent} requests answered, {counts.rate or 0:.1f} a second"
        )
        self._before = await metrics_now(self._group, self._plan.conditions)
        return counts.ok == counts.sent

    async def _measure(self, phase: Phase) -> None:
        """Send the load as often as was asked, and again until that took a while, or something was not answered."""
        made, spent = 0, 0.0
        while made < self._plan.passes or (spent < _MEASURED_S and made < _MOST_PASSES):
            before = self._ledger.ok(phase)
            seconds = await one_pass(
                self._sender, self._plan.requests, lambda reply: self._ledger.keep(phase, reply)
            )
            answered = self._ledger.ok(phase) - before
            self._ledger.passed(phase, answered, seconds)
            made, spent = made + 1, spent + seconds
            if answered < len(self._plan.requests):
                break

    async def _kill(self, traffic: Traffic) -> None:
        """Until the service is dead, has let go of what it held, and the outage has lasted."""
        plan, name = self._plan, self._plan.kill
        await traffic.reached()
        service = self._group.services[name]
        held = footprint(self._group.tree.below(service.pid))
        self._notes.note(
            killed_at=traffic.done, old=ProcessIdentity(pid=service.pid, started=service.started)
        )
        self._notes.say(
            f"{plan.signal.name} to {name} at {traffic.done} of {len(plan.requests)} requests"
        )
        traffic.go_on()
        asked = clock.now()
        await self._take_down()
        died = clock.now()
        self._notes.note(ended_s=died - asked)
        self._ledger.lasted(Phase.KILL, died - traffic.began)
        self._notes.phase = traffic.phase = Phase.OUTAGE
        release = Release(
            self._group,
            service,
            held,
            died,
            shared_memory=plan.shared_memory,
            gpu_before=self._notes.gpu_before,
        )
        released, _ = await asyncio.gather(
            release.wait(plan.release_timeout_s), asyncio.sleep(plan.outage_s)
        )
        outage_s = clock.now() - died
        self._notes.note(released=released, outage_s=outage_s)
        self._ledger.lasted(Phase.OUTAGE, outage_s)
        counts = self._ledger.counts[Phase.OUTAGE]
        self._notes.say(
            f"{outage_s:.1f} s without {name}: {counts.ok} requests ok, {counts.failed} failed"
        )

    async def _take_down(self) -> None:
        """Until the process has ended: by the signal or, where it does not, by SIGKILL."""
        try:
            async with asyncio.timeout(self._plan.release_timeout_s):
                await self._group.take_down(self._plan.kill, self._plan.signal)
        except TimeoutError:
            self._notes.note(refused=True)
            await self._group.take_down(self._plan.kill, signal.SIGKILL)

    async def _recover(self, traffic: Traffic) -> bool:
        """Whether the service and every condition came back in time."""
        self._notes.phase = traffic.phase = Phase.RECOVERY
        began = clock.now()
        try:
            if not await self._relaunch():
                return False
            self._notes.note(ready_s=clock.now() - began)
            held = await self._held(began, began + self._plan.recovery_timeout_s - clock.now())
            self._notes.note(conditions=held)
            if any(each.after_s is None for each in held):
                return False
            recovered_s = clock.now() - began
            self._notes.note(recovered_s=recovered_s)
        finally:
            self._ledger.lasted(Phase.RECOVERY, clock.now() - began)
        self._notes.say(f"recovered {recovered_s:.1f} s after the relaunch")
        return True

    async def _relaunch(self) -> bool:
        """Whether the service itself is ready again in time. A failure of its own counts as a death in the group."""
        name = self._plan.kill
        try:
            async with asyncio.timeout(self._plan.recovery_timeout_s):
                await self._group.relaunch(name)
        except TimeoutError:
            seen = await self._group.still_ready(name, 0.0)
            self._notes.note(not_ready=seen or "it answered its probe only after the time was up")
            return False
        service = self._group.services[name]
        self._notes.note(new=ProcessIdentity(pid=service.pid, started=service.started))
        return True

    async def _held(
        self, since: float, limit_s: float | None = None
    ) -> tuple[ConditionResult, ...]:
        limit_s = self._plan.recovery_timeout_s if limit_s is None else max(0.0, limit_s)
        return await all_held(
            self._group,
            self._plan.conditions,
            self._context,
            limit_s,
            before=self._before,
            since=since,
        )

    async def _after(self) -> None:
        await self._measure(Phase.AFTER)
        for _ in range(_SECOND_THOUGHTS):
            before, after = (self._ledger.counts[phase] for phase in (Phase.BASELINE, Phase.AFTER))
            wanted = self._plan.throughput * (before.rate or 0.0)
            if after.ok < after.sent or (after.rate or 0.0) >= wanted:
                break
            await self._measure(Phase.AFTER)
        counts = self._ledger.counts[Phase.AFTER]
        self._notes.say(
            f"{counts.ok} of {counts.sent} requests answered, {counts.rate or 0:.1f} a second"
        )
        # A server that ends with its last answer is not always dead yet when that arrives.
        for name in dict.fromkeys((self._plan.kill, self._group.endpoint.name)):
            if seen := await self._group.still_ready(name, _STILL_READY_S):
                self._notes.note(no_longer_ready=f"{name} is not ready any more: {seen}")
