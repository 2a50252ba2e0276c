# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: makes the starts of an experiment, one after the other, within its budget."""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.attempt import ExperimentProgress, StartAttempt, StartTools
from ci_doctor.correctness.control_request import is_due
from ci_doctor.correctness.evidence.finished_starts import StartWriter
from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.evidence.resume import free_number
from ci_doctor.correctness.evidence.samples import Sample, SampleWriter
from ci_doctor.correctness.pace import Pace
from ci_doctor.correctness.results import Experiment, ExperimentEnding, StartResult
from ci_doctor.correctness.same_answers import SameAnswers
from ci_doctor.correctness.settings import Arm, Caches, ExperimentPlan
from ci_doctor.correctness.shared_places import SharedPlaces, SharedWatch, now_ns
from ci_doctor.correctness.shared_use import SharedUse
from ci_doctor.correctness.start_tools import CACHES, start_tools
from ci_doctor.correctness.tally import Tally
from ci_doctor.correctness.unusable import unusable
from ci_doctor.correctness.verdict.schedule import next_arm
from ci_doctor.render import formatting
from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import Interruption

# The compile caches that all starts share (`caches = "warm-up"`).
_SHARED = "shared"


class EvidenceFiles(Struct, frozen=True, kw_only=True):
    """Where evidence goes as it arrives, and what exists already.

    `finished` are starts of a run that was cut off, `archived` those of earlier builds.
    """

    samples: SampleWriter
    starts: StartWriter
    outputs: Outputs
    finished: tuple[StartResult, ...] = ()
    archived: tuple[StartResult, ...] = ()


def make_starts(
    plan: ExperimentPlan,
    files: EvidenceFiles,
    on_progress: Callable[[ExperimentProgress], None],
    pace: Pace,
    interruption: Interruption,
) -> Experiment:
    """Make the starts of `plan`, and leave no process behind.

    It ends by itself at the deadline, and when `interruption`, which is handling signals, gets one; the Experiment and the
    samples file then hold what was gathered. Raises UsageError and InfraError as `start_group` and
    `collect` do, and InfraError if a sample cannot be written.
    """
    with asyncio.Runner() as runner:
        experiment = _ExperimentRun(plan, files, on_progress, pace, interruption)
        return runner.run(experiment.to_the_end())


class _ExperimentRun:
    """An experiment under way."""

    def __init__(
        self,
        plan: ExperimentPlan,
        files: EvidenceFiles,
        on_progress: Callable[[ExperimentProgress], None],
        pace: Pace,
        interruption: Interruption,
    ) -> None:
        self.plan = plan
        self.files = files
        self.on_progress = on_progress
        self.pace = pace
        self.interruption = interruption
        same = SameAnswers(plan.comparison, files.outputs)
        # In the order in which they were made.
        self.archived = tuple(map(same.at_gate, files.archived))
        self.results = list(map(same.at_gate, files.finished))
        self.same = same
        specs = [spec for arm in plan.arms.values() for spec in arm.specs.values()]
        self.shared = SharedPlaces(
            plan.environment, specs, plan.services_directory, plan.directory, plan.shared
        )
        for result in self.results:
            # Of a run that is resumed.
            start = result.start
            self.shared.note(start.arm.letter, start.name, result.shared.written)

    async def to_the_end(self) -> Experiment:
        # Caches of a run that was killed: nothing in them is fresh.
        shutil.rmtree(self._caches, ignore_errors=True)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are in one
        try:
            with self.interruption.watch(task):
                # A deadline that has passed already cancels at the first await.
                async with asyncio.timeout(self.plan.deadline - clock.now()) as limit:
                    await self._starts(limit)
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if self.interruption.received is None:
                raise
        finally:
            shutil.rmtree(self._caches, ignore_errors=True)
        return self._experiment(self._ending())

    def _experiment(self, ending: ExperimentEnding) -> Experiment:
        return Experiment(
            results=tuple(self.results),
            outputs=self.files.outputs,
            ending=ending,
            rules=self.plan.rules,
            comparison=self.plan.comparison,
            archived=self.archived,
            deadline=self.plan.deadline,
        )

    def _ending(self) -> ExperimentEnding:
        if self.interruption.received is not None:
            return ExperimentEnding(self.interruption.received.name)
        if self._next() is None:
            return ExperimentEnding.COMPLETE
        return ExperimentEnding.BUDGET

    async def _starts(self, limit: asyncio.Timeout) -> None:
        self._measure_budget(limit)
        self._tell_pace()
        if self.plan.caches is Caches.WARM_UP and self._next():
            await self._warm_up()
        while (arm := self._next()) and self._is_time_for(arm):
            await self._start(arm)
            self._measure_budget(limit)
            self._tell_pace()

    def _measure_budget(self, limit: asyncio.Timeout) -> None:
        """Move a deadline that nobody set, once a start shows how long the run may take."""
        measured = self.pace.measured_deadline(self.results)
        if not self.plan.may_take_longer or measured <= self.plan.deadline:
            return
        before = formatting.duration(self.plan.deadline - self.plan.started)
        now = formatting.duration(measured - self.plan.started)
        self.plan = replace(self.plan, deadline=measured)
        self.pace = replace(self.pace, deadline=measured)
        limit.reschedule(asyncio.get_running_loop().time() + measured - clock.now())
        note = (
            f"budget {now} instead of {before}: no --budget is set, and {len(self.pace.order)} starts "
            "may be needed, each as long as those so far"
        )
        self.on_progress(ExperimentProgress(note=note))

    def _tell_pace(self) -> None:
        """How many starts fit, by what is known now; nothing if no further start is needed."""
        if self._next():
            note = self.pace.outlook(self.results, clock.now())
            self.on_progress(ExperimentProgress(note=note))

    def _next(self) -> Arm | None:
        # A command that cannot run at all decides nothing, however often it is started.
        if unusable(self.results, self.plan.arms):
            return None
        starts = self._experiment(ExperimentEnding.BUDGET).starts
        return next_arm(starts, self.plan.ids, self.plan.rules)

    def _is_time_for(self, arm: Arm) -> bool:
        """Whether a start may end in time. One that cannot would only delay the report."""
        fastest = 0.0
        for result in self.results:
            if result.cut_short:
                return False
            if result.start.arm is arm:
                # The fastest: a start that may end in time is worth trying.
                fastest = min(fastest or result.duration_s, result.duration_s)
        return clock.now() + fastest <= self.plan.deadline

    async def _warm_up(self) -> None:
        """A baseline start that fills the shared compile caches; its answers are no evidence."""
        tally = self._tally(Arm.BASELINE, 0)
        with self._tools(lambda _: None, _SHARED) as tools:
            attempt = StartAttempt(self.plan, tally, tools)
            try:
                await attempt.run()
            finally:
                self.results.append(attempt.result(warm_up=True))

    async def _start(self, arm: Arm) -> None:
        """Make one start. However it ends, its processes are gone and its result is kept."""
        number = free_number(arm, [result.start for result in self.results])
        tally = self._tally(arm, number)
        is_shared = self.plan.caches is Caches.WARM_UP
        starts = self._experiment(ExperimentEnding.BUDGET).starts
        with self._tools(self._keep, _SHARED if is_shared else tally.name) as given:
            tools = replace(given, control=self.plan.control and is_due(arm, starts))
            attempt = StartAttempt(self.plan, tally, tools)
            watch = SharedWatch(self._of_other_arm(arm), tools.caches.get("TMPDIR", ""))
            since_ns = now_ns()
            try:
                watch.begin()
                await attempt.run()
                await watch.end()
            finally:
                watch.give_back()
                if attempt.failure and self.interruption.received:
                    # A signal to the whole job ends its services too, and their deaths may be
                    # noticed before the signal.
                    attempt.whole = False
                result = replace(attempt.result(), shared=self._use(tally, watch, since_ns))
                self.files.starts.write(result, tally.count)
                self.results.append(self.same.at_gate(result))
                if not is_shared:
                    # Compile caches take gigabytes, and no later start uses these.
                    shutil.rmtree(self._caches / tally.name, ignore_errors=True)

    def _of_other_arm(self, arm: Arm) -> Mapping[str, str]:
        """The files that starts of the other arm wrote; none if the arms share caches by request."""
        if self.plan.caches is Caches.AS_IS:
            return {}
        return self.shared.written_by_others(arm.letter)

    def _use(self, tally: Tally, watch: SharedWatch, since_ns: int) -> SharedUse:
        if self.plan.caches is Caches.AS_IS:
            return SharedUse()
        written = self.shared.note_written(tally.arm.letter, tally.name, since_ns)
        return watch.use(written)

    def _tally(self, arm: Arm, number: int) -> Tally:
        return Tally(
            arm=arm,
            number=number,
            ids=self.plan.ids,
            passes=self.plan.passes,
            requests=self.plan.requests,
        )

    @property
    def _caches(self) -> Path:
        return self.plan.directory / CACHES

    def _tools(
        self, keep: Callable[[Sample], None], caches: str
    ) -> AbstractContextManager[StartTools]:
        return start_tools(self.plan, self._caches / caches, keep, self.on_progress)

    def _keep(self, sample: Sample) -> None:
        place = self.files.samples.write(sample)
        if sample.digest is not None:
            self.files.outputs.note(sample.digest, self.files.samples.path, place)
