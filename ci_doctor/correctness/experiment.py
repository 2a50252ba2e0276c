# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: makes the starts of an experiment, one after the other, within its budget."""

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from ci_doctor.correctness.collect import collect
from ci_doctor.correctness.decide import next_arm
from ci_doctor.correctness.results import Ending, Experiment, StartResult
from ci_doctor.correctness.samples import Sample, SampleWriter
from ci_doctor.correctness.settings import Arm, Plan
from ci_doctor.correctness.tally import Tally, unmet
from ci_doctor.load.canonical import encode
from ci_doctor.load.metrics import read_metrics
from ci_doctor.load.sending import Sender
from ci_doctor.services.group import start_group
from ci_doctor.services.instance import RunningService
from ci_doctor.services.outcome import EventKind, FailureKind, ServiceEvent, ServiceFailure
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext
from ci_doctor.system import clock
from ci_doctor.system.interruption import Interruption

# A start that is not ready this many seconds before its share of the budget ends was not ready because of it.
_CLOSE_S = 0.5
# What a server has to answer its probe again once it has answered everything.
_STILL_READY_S = 5.0


class Progress(Struct, frozen=True, kw_only=True):
    """Something happened in a start: a service's event, or one more of `asked` answers."""

    start: str
    event: ServiceEvent | None = None
    answers: int = 0
    asked: int = 0


def run(plan: Plan, writer: SampleWriter, on_progress: Callable[[Progress], None]) -> Experiment:
    """Make the starts of `plan`. Ends by itself at the deadline and on a signal that asks to end, with no process left.

    What was gathered until then is in the Experiment that is returned, and in the samples file. Raises UsageError and
    InfraError as `start_group` and `collect` do, and InfraError where a sample cannot be written.
    """
    interruption = Interruption()
    with interruption.handling(), asyncio.Runner() as runner:
        return runner.run(_Run(plan, writer, on_progress).to_the_end(interruption))


class _Run:
    """An experiment under way."""

    def __init__(self, plan: Plan, writer: SampleWriter, on_progress: Callable[[Progress], None]) -> None:
        self.plan = plan
        self.writer = writer
        self.on_progress = on_progress
        self.ids = tuple(request.id for request in plan.requests)
        self.results: list[StartResult] = []
        self.outputs: dict[str, bytes] = {}

    async def to_the_end(self, interruption: Interruption) -> Experiment:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are in one
        try:
            with interruption.watch(task):
                async with asyncio.timeout(self.plan.deadline - clock.now()):
                    await self._starts()
        except (TimeoutError, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and interruption.received is None:
                raise
        return Experiment(results=tuple(self.results), outputs=self.outputs, ending=self._ending(interruption))

    def _ending(self, interruption: Interruption) -> Ending:
        if interruption.received is not None:
            return Ending(interruption.received.name)
        return Ending.COMPLETE if self._next() is None else Ending.BUDGET

    async def _starts(self) -> None:
        while (arm := self._next()) and self._is_time_for(arm):
            await self._start(arm)

    def _next(self) -> Arm | None:
        return next_arm([result.start for result in self.results if not result.cut_short], self.ids, self.plan.retries)

    def _is_time_for(self, arm: Arm) -> bool:
        """A start that cannot end in time is not begun: it would only keep the report from being written calmly."""
        if any(result.cut_short for result in self.results):
            return False
        earlier = [result.duration_s for result in self.results if result.start.arm is arm]
        return not earlier or clock.now() + min(earlier) <= self.plan.deadline

    async def _start(self, arm: Arm) -> None:
        """Make one start. However it ends, its processes are gone and its result is kept."""
        number = 1 + sum(result.start.arm is arm for result in self.results)
        attempt = _Attempt(Tally(arm=arm, number=number, ids=self.ids, passes=self.plan.passes))
        try:
            launched = await self._launch(attempt)
            if isinstance(launched, ServiceFailure):
                attempt.failure, attempt.whole = launched, not self._ran_out_of_time(launched)
                return
            attempt.group = launched
            try:
                attempt.failure = await self._requests(launched, attempt.tally)
                attempt.whole = True
            finally:
                await launched.stop(grace_s=self.plan.grace_s)
        finally:
            self.results.append(attempt.result())

    def _ran_out_of_time(self, failure: ServiceFailure) -> bool:
        """Whether it was the budget that left the service no time, not its own start_timeout."""
        return failure.kind is FailureKind.NOT_READY and clock.now() >= self._start_deadline - _CLOSE_S

    @property
    def _start_deadline(self) -> float:
        """When a group must be ready: early enough to stop it in order and say what its log says."""
        return self.plan.deadline - self.plan.grace_s

    async def _launch(self, attempt: "_Attempt") -> RunningGroup | ServiceFailure:
        plan, tally = self.plan.arms[attempt.tally.arm], attempt.tally
        context = LaunchContext(
            environment=self.plan.environment,
            directory=self.plan.services_directory,
            log_directory=self.plan.directory / "logs" / tally.name,
            placeholders={"arm": tally.arm.value, "start": str(tally.number)},
            limit_s=self._start_deadline - clock.now(),
            grace_s=self.plan.grace_s,
        )

        def on_event(event: ServiceEvent) -> None:
            if event.kind is EventKind.STARTED and event.log is not None:
                attempt.logs.append(Path(event.log))
            self._tell(tally, event)

        return await start_group(plan.specs, plan.names, context, on_event)

    def _tell(self, tally: Tally, event: ServiceEvent | None = None) -> None:
        self.on_progress(
            Progress(start=tally.name, event=event, answers=tally.count, asked=len(self.ids) * self.plan.passes)
        )

    async def _requests(self, group: RunningGroup, tally: Tally) -> ServiceFailure | None:
        """Ask everything; the first death among the services ends it."""
        asking = asyncio.create_task(self._ask(group, tally))
        try:
            # A done callback, because waiting on `death` itself would cancel it with us.
            group.death.add_done_callback(lambda _: asking.cancel())
            await asyncio.wait({asking})
            return group.death.result() if group.death.done() else asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _ask(self, group: RunningGroup, tally: Tally) -> ServiceFailure | None:
        arm = self.plan.arms[tally.arm]
        service = group.services[arm.names[-1]]
        tally.proof_missing = unmet(arm.proof, None, None)
        before = await read_metrics(service.base_url) if arm.proof else {}
        sender = Sender(
            base_url=service.base_url, concurrency=self.plan.concurrency, timeout_s=self.plan.request_timeout_s
        )
        for number in range(1, self.plan.passes + 1):
            sample = functools.partial(Sample, arm=tally.arm.value, start=tally.number, pass_=number)
            await collect(sender, self.plan.requests, sample, functools.partial(self._keep, tally))
        after = await read_metrics(service.base_url) if arm.proof else {}
        tally.proof_missing = unmet(arm.proof, before, after)
        # A server that ends with its last answer is not always dead yet when that arrives.
        seen = await group.still_ready(service.name, _STILL_READY_S)
        return _no_longer_ready(group, service, seen) if seen is not None else None

    def _keep(self, tally: Tally, sample: Sample) -> None:
        self.writer.write(sample)
        tally.add(sample)
        if sample.digest is not None and sample.digest not in self.outputs:
            self.outputs[sample.digest] = encode(sample.output)
        self._tell(tally)


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


class _Attempt:
    """A start under way. It is `whole` once its end is its own, and not that of the budget or of a signal."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.began = clock.now()
        self.whole = False
        self.failure: ServiceFailure | None = None
        self.logs: list[Path] = []
        self.group: RunningGroup | None = None

    def result(self) -> StartResult:
        """What came of it, with no process left: where an orderly stop was cut off, this is where it ends."""
        stopped = self.group.kill_now() if self.group else None
        outside = self.failure is not None and self.failure.kind is FailureKind.OUTSIDE
        return StartResult(
            start=self.tally.start(failed=self.failure is not None, outside=outside),
            failure=self.failure,
            duration_s=clock.now() - self.began,
            logs=tuple(self.logs),
            digests=self.tally.digests,
            errors=self.tally.errors,
            killed=tuple(f"{process.name} ({process.pid})" for process in stopped.killed) if stopped else (),
            cut_short=not self.whole,
        )
