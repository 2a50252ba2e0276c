# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: makes the starts of an experiment, one after the other, within its budget."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from ci_doctor.correctness.attempt import ExperimentProgress, StartAttempt, StartTools
from ci_doctor.correctness.caches import cache_places, fresh_caches
from ci_doctor.correctness.evidence.finished_starts import StartWriter
from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.evidence.resume import free_number
from ci_doctor.correctness.evidence.samples import Sample, SampleWriter
from ci_doctor.correctness.pace import Pace
from ci_doctor.correctness.results import Experiment, ExperimentEnding, StartResult
from ci_doctor.correctness.settings import Arm, Caches, ExperimentPlan
from ci_doctor.correctness.tally import Tally
from ci_doctor.correctness.verdict.schedule import next_arm
from ci_doctor.errors import InfraError
from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import Interruption


class EvidenceFiles(Struct, frozen=True, kw_only=True):
    """Where evidence goes as it arrives, and what is there already: starts of a run that was cut off, archived ones."""

    samples: SampleWriter
    starts: StartWriter
    outputs: Outputs
    finished: tuple[StartResult, ...] = ()
    archived: tuple[StartResult, ...] = ()


def run(
    plan: ExperimentPlan,
    records: EvidenceFiles,
    on_progress: Callable[[ExperimentProgress], None],
    pace: Pace,
) -> Experiment:
    """Make the starts of `plan`. Ends by itself at the deadline and on a signal that asks to end, with no process left.

    What was gathered until then is in the Experiment that is returned, and in the samples file. Raises UsageError and
    InfraError as `start_group` and `collect` do, and InfraError where a sample cannot be written.
    """
    interruption = Interruption()
    with interruption.handling(), asyncio.Runner() as runner:
        return runner.run(
            _ExperimentRun(plan, records, on_progress, pace, interruption).to_the_end()
        )


class _ExperimentRun:
    """An experiment under way."""

    def __init__(
        self,
        plan: ExperimentPlan,
        records: EvidenceFiles,
        on_progress: Callable[[ExperimentProgress], None],
        pace: Pace,
        interruption: Interruption,
    ) -> None:
        self.plan = plan
        self.records = records
        self.on_progress = on_progress
        self.pace = pace
        self.interruption = interruption
        self.ids = tuple(request.id for request in plan.requests)
        self.results = list(records.finished)

    async def to_the_end(self) -> Experiment:
        shutil.rmtree(
            self._caches, ignore_errors=True
        )  # of a run that was killed: nothing in it is fresh
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are in one
        try:
            with self.interruption.watch(task):
                async with asyncio.timeout(self.plan.deadline - clock.now()):
                    await self._starts()
        except (TimeoutError, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and self.interruption.received is None:
                raise
        finally:
            shutil.rmtree(self._caches, ignore_errors=True)
        return self._experiment(self._ending())

    def _experiment(self, ending: ExperimentEnding) -> Experiment:
        return Experiment(
            results=tuple(self.results),
            outputs=self.records.outputs,
            ending=ending,
            rules=self.plan.rules,
            archived=self.records.archived,
        )

    def _ending(self) -> ExperimentEnding:
        if self.interruption.received is not None:
            return ExperimentEnding(self.interruption.received.name)
        return ExperimentEnding.COMPLETE if self._next() is None else ExperimentEnding.BUDGET

    async def _starts(self) -> None:
        self._tell_pace()
        if self.plan.caches is Caches.WARM_UP and self._next():
            await self._warm_up()
        while (arm := self._next()) and self._is_time_for(arm):
            await self._start(arm)
            self._tell_pace()

    def _tell_pace(self) -> None:
        """How many starts fit, by what is known now; nothing where no further start is needed."""
        if self._next():
            self.on_progress(ExperimentProgress(note=self.pace.outlook(self.results, clock.now())))

    def _next(self) -> Arm | None:
        return next_arm(self._experiment(ExperimentEnding.BUDGET).starts, self.ids, self.plan.rules)

    def _is_time_for(self, arm: Arm) -> bool:
        """A start that cannot end in time is not begun: it would only keep the report from being written calmly."""
        if any(result.cut_short for result in self.results):
            return False
        earlier = [result.duration_s for result in self.results if result.start.arm is arm]
        return not earlier or clock.now() + min(earlier) <= self.plan.deadline

    async def _warm_up(self) -> None:
        """A baseline start that fills the compile caches which all others share; its answers are no evidence."""
        attempt = StartAttempt(
            self.plan, self._tally(Arm.BASELINE, 0), self._tools(lambda _: None, "shared")
        )
        try:
            await attempt.run()
        finally:
            self.results.append(attempt.result(warm_up=True))

    async def _start(self, arm: Arm) -> None:
        """Make one start. However it ends, its processes are gone and its result is kept."""
        tally = self._tally(arm, free_number(arm, [result.start for result in self.results]))
        shared = self.plan.caches is Caches.WARM_UP
        attempt = StartAttempt(
            self.plan, tally, self._tools(self._keep, "shared" if shared else tally.name)
        )
        try:
            await attempt.run()
        finally:
            if attempt.failure and self.interruption.received:
                # Whoever signals a whole job ends its services too, and their deaths may be heard of first.
                attempt.whole = False
            result = attempt.result()
            self.results.append(result)
            self.records.starts.write(result, tally.count)
            if not shared:
                shutil.rmtree(self._caches / tally.name, ignore_errors=True)

    def _tally(self, arm: Arm, number: int) -> Tally:
        return Tally(arm=arm, number=number, ids=self.ids, passes=self.plan.passes)

    @property
    def _caches(self) -> Path:
        return self.plan.directory / ".ci-doctor-caches"

    def _tools(self, keep: Callable[[Sample], None], caches: str) -> StartTools:
        environment = self.plan.environment
        if self.plan.caches is Caches.AS_IS:
            return StartTools(
                keep=keep, tell=self.on_progress, cache_places=cache_places(environment)
            )
        directory = self._caches / caches
        with _or_infra(directory):
            variables = fresh_caches(directory, environment)
        return StartTools(
            keep=keep, tell=self.on_progress, caches=variables, cache_places=(directory,)
        )

    def _keep(self, sample: Sample) -> None:
        place = self.records.samples.write(sample)
        if sample.digest is not None:
            self.records.outputs.note(sample.digest, self.records.samples.path, place)


@contextlib.contextmanager
def _or_infra(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InfraError(
            f"cannot make {directory}: {error.strerror}", hint="free some disk space"
        ) from error
