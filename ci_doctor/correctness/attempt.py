# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: one start of an arm, from its launch over its answers to its stop."""

import asyncio
import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
from msgspec import Struct

from ci_doctor.correctness.caches import added, count_files
from ci_doctor.correctness.collect import collect
from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.proof import ProofCheck
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import ExperimentPlan
from ci_doctor.correctness.tally import Tally
from ci_doctor.identity.loaded import loaded
from ci_doctor.load.sending import Sender
from ci_doctor.services.group import start_group
from ci_doctor.services.instance import RunningService
from ci_doctor.services.outcome import (
    EventKind,
    FailureKind,
    ServiceEvent,
    ServiceFailure,
    StopResult,
)
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext
from ci_doctor.system import clock

# A start that is not ready this many seconds before its share of the budget ends was not ready because of it.
_CLOSE_S = 0.5
# What a server has to answer its probe again once it has answered everything.
_STILL_READY_S = 5.0


class ExperimentProgress(Struct, frozen=True, kw_only=True):
    """Something happened in a start: a service's event, or one more of the answers to `requests`. Or `note`: a sentence on the whole."""

    start: str = ""
    event: ServiceEvent | None = None
    answers: int = 0
    requests: int = 0
    note: str = ""


class StartTools(Struct, frozen=True, kw_only=True):
    """What a start needs besides the plan: who keeps a sample, who is told, the compile caches by variable and place."""

    keep: Callable[[Sample], None]
    tell: Callable[[ExperimentProgress], None]
    caches: Mapping[str, str] = {}
    cache_places: tuple[Path, ...] = ()


class StartAttempt:
    """A start under way. It is `whole` once its end is its own, and not that of the budget or of a signal."""

    def __init__(self, plan: ExperimentPlan, tally: Tally, tools: StartTools) -> None:
        self.plan = plan
        self.tally = tally
        self.tools = tools
        self.began = clock.now()
        self.whole = False
        self.failure: ServiceFailure | None = None
        self.logs: list[Path] = []
        self.facts: Mapping[str, str] = {}
        self._group: RunningGroup | None = None
        self._stopped: StopResult | None = None
        self._cached = count_files(*tools.cache_places)

    async def run(self) -> None:
        """Start, ask everything, stop. What came of it is in `result`, however this ends."""
        launched = await self._launch()
        if isinstance(launched, ServiceFailure):
            self.failure, self.whole = launched, not self._ran_out_of_time(launched)
            self._stopped = launched.stopped
            return
        self._group = launched
        try:
            self.failure = await self._requests(launched)
            self.whole = True
        finally:
            self._stopped = await launched.stop(grace_s=self.plan.grace_s)

    def result(self, *, warm_up: bool = False) -> StartResult:
        """What came of it, with no process left: where an orderly stop was cut off, this is where it ends."""
        stopped = self._group.kill_now() if self._group else self._stopped
        outside = self.failure is not None and self.failure.kind is FailureKind.OUTSIDE
        return StartResult(
            # A process that was never started has the machine's word, not its own.
            start=self.tally.start(
                failed=self.failure is not None,
                outside=outside,
                claimed=outside and self.failure is not None and self.failure.log is not None,
            ),
            failure=self.failure,
            duration_s=clock.now() - self.began,
            logs=tuple(self.logs),
            digests=self.tally.digests,
            errors=self.tally.errors,
            killed=tuple(f"{process.name} ({process.pid})" for process in stopped.killed)
            if stopped
            else (),
            not_released=self._stopped.not_released if self._stopped else (),
            throttled=len(self.tally.throttled),
            facts=self.facts,
            cached=added(self._cached, count_files(*self.tools.cache_places)),
            cut_short=not self.whole,
            warm_up=warm_up,
        )

    def _ran_out_of_time(self, failure: ServiceFailure) -> bool:
        """Whether it was the budget that left the service no time, not its own start_timeout."""
        return (
            failure.kind is FailureKind.NOT_READY and clock.now() >= self._start_deadline - _CLOSE_S
        )

    @property
    def _start_deadline(self) -> float:
        """When a group must be ready: early enough to stop it in order and say what its log says."""
        return self.plan.deadline - self.plan.grace_s

    async def _launch(self) -> RunningGroup | ServiceFailure:
        arm, tally = self.plan.arms[self.tally.arm], self.tally
        context = LaunchContext(
            environment={**self.plan.environment, **self.tools.caches},
            directory=self.plan.services_directory,
            log_directory=self.plan.directory / "logs" / tally.name,
            placeholders={"arm": tally.arm.value, "start": str(tally.number)},
            limit_s=self._start_deadline - clock.now(),
            grace_s=self.plan.grace_s,
        )

        def on_event(event: ServiceEvent) -> None:
            if event.kind is EventKind.STARTED and event.log is not None:
                self.logs.append(Path(event.log))
            self.tools.tell(ExperimentProgress(start=tally.name, event=event))

        return await start_group(arm.specs, arm.names, context, on_event)

    async def _requests(self, group: RunningGroup) -> ServiceFailure | None:
        """Ask everything; the first death among the services ends it."""
        asking = asyncio.create_task(self._ask(group))
        try:
            # A done callback, because waiting on `death` itself would cancel it with us.
            group.death.add_done_callback(lambda _: asking.cancel())
            await asyncio.wait({asking})
            return group.death.result() if group.death.done() else asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _ask(self, group: RunningGroup) -> ServiceFailure | None:
        arm, tally = self.plan.arms[self.tally.arm], self.tally
        service = group.services[arm.names[-1]]
        witness = ProofCheck(arm.proof, group, service.name)
        tally.proof_missing = ("the start was cut short",) if arm.proof else ()
        await witness.begin()
        sender = Sender(
            base_url=service.base_url,
            concurrency=self.plan.concurrency,
            timeout_s=self.plan.request_timeout_s,
            comes_again=True,
        )
        unreset: tuple[str, ...] = ()
        for number in range(1, self.plan.passes + 1):
            if number > 1 and arm.reset:
                unreset += await _reset(sender, arm.reset)
            sample = functools.partial(
                Sample, arm=tally.arm.value, start=tally.number, pass_=number
            )
            await collect(sender, self.plan.requests, sample, self._keep)
        self.facts = self._loaded(group)
        tally.proof_missing = (*unreset, *await witness.unmet())
        # A server that ends with its last answer is not always dead yet when that arrives.
        seen = await group.still_ready(service.name, _STILL_READY_S)
        return _no_longer_ready(group, service, seen) if seen is not None else None

    def _loaded(self, group: RunningGroup) -> Mapping[str, str]:
        pids = {
            kin.pid for service in group.services.values() for kin in group.tree.below(service.pid)
        }
        return loaded(sorted(pids))

    def _keep(self, sample: Sample) -> None:
        self.tools.keep(sample)
        self.tally.add(sample)
        asked = len(self.plan.requests) * self.plan.passes
        self.tools.tell(
            ExperimentProgress(start=self.tally.name, answers=self.tally.count, requests=asked)
        )


async def _reset(sender: Sender, path: str) -> tuple[str, ...]:
    """Ask the server to forget, between two passes; why that is not known to have happened, in a sentence."""
    try:
        async with asyncio.timeout(sender.timeout_s), sender.client() as client:
            response = await client.post(path)
    except (TimeoutError, httpx.HTTPError) as error:
        return (f"the reset request {path} was not answered: {type(error).__name__}",)
    return (
        ()
        if response.is_success
        else (f"the reset request {path} was answered with HTTP {response.status_code}",)
    )


def _no_longer_ready(group: RunningGroup, service: RunningService, seen: str) -> ServiceFailure:
    return ServiceFailure(
        kind=FailureKind.NOT_READY,
        service=service.name,
        message=f"{service.name} was ready, and is so no more after the last answer: {seen}",
        log=str(service.log),
        was_ready=True,
        at=clock.now(),
        duration_s=group.instances[service.name].subject(clock.now()).duration_s,
    )
