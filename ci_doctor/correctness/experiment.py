# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: makes the starts of an experiment, one or two at a time, within its budget.

Starts that run at once are launched together, and send their requests in turn. To become ready takes
most of a start, and shows little of what both arms reach. So what changes during the requests is the
work of one start, the other one is idle, and an answer that it takes from there later is noticed.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.asking import is_due
from ci_doctor.correctness.attempt import (
    CACHES,
    ExperimentProgress,
    StartAttempt,
    StartTools,
    start_tools,
)
from ci_doctor.correctness.devices import without_gpu_memory
from ci_doctor.correctness.evidence.resume import StartWriter, free_number
from ci_doctor.correctness.evidence.samples import Outputs, Sample, SampleWriter
from ci_doctor.correctness.pace import Pace
from ci_doctor.correctness.results import (
    Experiment,
    ExperimentEnding,
    SameAnswers,
    StartResult,
    Tally,
    unusable,
)
from ci_doctor.correctness.sensitivity import copies_within
from ci_doctor.correctness.settings import Arm, Caches, ExperimentPlan
from ci_doctor.correctness.shared_places import EVERYTHING, SharedPlaces, SharedWatch, now_ns
from ci_doctor.correctness.verdict.schedule import drawn_places, next_arms
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.machine.gpus import read_gpu_memory
from ci_doctor.model.facts.correctness import PromptRegion, SharedUse
from ci_doctor.model.facts.launch import LeftThing
from ci_doctor.render import formatting
from ci_doctor.services.ports import gpu_memory_held
from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import Interruption

# The kernel's clock of files lags by a tick (10 ms at 100 Hz): what changed before is not the next one's.
_TICK_S = 0.05


class StartWave:
    """The starts that run at once, by the letter of their arm and their name; one may be alone.

    `marks` are texts in the environment of their processes, by name. `shared` is None if the arms
    share everything by request. Made and used inside a running event loop.
    """

    def __init__(
        self,
        starts: Sequence[tuple[str, str]],
        marks: Mapping[str, str],
        shared: SharedPlaces | None,
    ) -> None:
        self._starts = tuple(starts)
        self._shared = shared
        self._watch = SharedWatch(marks)
        self._is_launched = [asyncio.Event() for _ in starts]
        self._has_ended = [asyncio.Event() for _ in starts]
        self._begun_ns = now_ns()
        self._turns_ns: dict[int, int] = {}
        # When each was about to get its first request.
        self._answering_ns: dict[int, int] = {}
        self._at_launch: list[str] | None = None
        if len(starts) == 1:
            self._turns_ns[0], self._at_launch = self._begun_ns, []

    def begin(self) -> None:
        """Watch what earlier starts of the other arm wrote, before anything is started."""
        for place in range(len(self._starts)):
            self._lease(place)

    async def turn(self, place: int) -> None:
        """Returns once all are ready or have failed, and those before this one have ended."""
        self._is_launched[place].set()
        for event in (*self._is_launched, *self._has_ended[:place]):
            await event.wait()
        await asyncio.sleep(_TICK_S)
        if place not in self._turns_ns:
            self._note_launch()
            self._turns_ns[place] = now_ns()
            await asyncio.sleep(_TICK_S)
            self._lease(place)
        self._answering_ns[place] = now_ns()

    async def settle(self) -> None:
        """Wait until it is known who has opened what."""
        await self._watch.settle()

    def end(self, place: int, left: Iterable[LeftThing] = ()) -> SharedUse:
        """The start has ended with what it `left`, and what it did with files; the turn of the next one begins."""
        self._is_launched[place].set()
        self._has_ended[place].set()
        if self._shared is None:
            return SharedUse()
        arm, name = self._starts[place]
        written = []
        if place in self._turns_ns:
            written = self._shared.note_written(
                arm, name, self._turns_ns[place], self._answering_ns.get(place)
            )
        elif all(event.is_set() for event in self._has_ended):
            # None had a turn before.
            self._note_launch()
        changed = sorted({*written, *(self._at_launch or [])})
        opened = {**self._watch.read[name], **self._shared.used_of_others(arm, written)}
        reads = self._shared.reads(arm, name, opened)
        own = self._shared.own(changed, {*opened, *(thing.name for thing in left)})
        return self._watch.use(changed, own, reads, self._shared.unseen)

    def give_back(self) -> None:
        """Watch nothing any more; every process of the starts has ended."""
        self._watch.give_back()

    def _note_launch(self) -> None:
        if self._at_launch is None:
            self._at_launch = []
            if self._shared is not None:
                self._at_launch = self._shared.note_launched(self._starts, self._begun_ns)

    def _lease(self, place: int) -> None:
        if self._shared is not None:
            arm, name = self._starts[place]
            self._watch.watch(name, self._shared.watched_by(arm))


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
        try:
            with self.interruption.watch():
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
        if not self._next():
            return ExperimentEnding.COMPLETE
        return ExperimentEnding.BUDGET

    async def _starts(self, limit: asyncio.Timeout) -> None:
        self._measure_budget(limit)
        if self._next() and not self.plan.given:
            names = {arm: ", ".join(each.names) for arm, each in self.plan.arms.items()}
            self._tell(self.pace.beginning(names, len(self.plan.requests), self.results))
        if self.plan.caches is Caches.WARM_UP and self._next():
            await self._warm_up()
        is_first = True
        while (arms := self._next()) and self._is_time_for(arms):
            await self._start(arms)
            self._measure_budget(limit)
            # Now it is measured; no later start changes it by much.
            if is_first and self._next() and not self.plan.given:
                self._tell(self.pace.outlook(self.results, clock.now()))
            is_first = False

    def _tell(self, note: str) -> None:
        if note:
            self.on_progress(ExperimentProgress(note=note))

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
        self._tell(
            f"budget {now} instead of {before}: no --budget is set, and {len(self.pace.order)} starts "
            "may be needed, each as long as those so far"
        )

    def _next(self) -> tuple[Arm, ...]:
        """The arms to start next, at once."""
        if self.plan.given:
            made = {
                (each.start.arm, each.start.number) for each in self.results if not each.warm_up
            }
            return tuple(each[0] for each in self.plan.given if each not in made)[:1]
        # A command that cannot run at all decides nothing, however often it is started.
        if unusable(self.results, self.plan.arms):
            return ()
        if self.plan.check_requests:
            return () if self.results else (Arm.BASELINE,)
        return next_arms(self._compared, self.plan.ids, self.plan.rules, self.plan.at_once)

    @property
    def _compared(self) -> tuple[ArmStart, ...]:
        return self._experiment(ExperimentEnding.BUDGET).starts

    def _is_time_for(self, arms: Sequence[Arm]) -> bool:
        """Whether starts may end in time. One that cannot would only delay the report."""
        fastest: dict[Arm, float] = {}
        for result in self.results:
            if result.cut_short:
                return False
            # The fastest: a start that may end in time is worth trying.
            arm = result.start.arm
            fastest[arm] = min(fastest.get(arm, result.duration_s), result.duration_s)
        seconds = self.pace.share * sum(fastest.get(arm, 0.0) for arm in arms)
        return clock.now() + seconds <= self.plan.deadline

    async def _warm_up(self) -> None:
        """A baseline start that fills the shared compile caches; its answers are no evidence."""
        tally = self._tally(Arm.BASELINE, 0)
        place = next(iter(self.plan.places), "")
        with self._tools(lambda _: None, _SHARED, place) as tools:
            attempt = StartAttempt(self.plan, tally, tools)
            try:
                await attempt.run()
            finally:
                self.results.append(attempt.result(warm_up=True))

    async def _start(self, arms: Sequence[Arm]) -> None:
        """Make these starts, at once. However they end, their processes are gone and their results kept."""
        plan, memory_limit_s = self.plan, None
        if len(arms) > 1:
            plan, memory_limit_s = without_gpu_memory(plan)
        memory = () if memory_limit_s is None else read_gpu_memory()
        began = clock.now()
        with ExitStack() as stack:
            given = {
                tally: stack.enter_context(self._tools(self._keep, tally.name, place))
                for tally, place in zip(self._tallies(arms), self._places(arms), strict=True)
            }
            marks = {each.name: tools.caches.get("TMPDIR", "") for each, tools in given.items()}
            names = [(each.arm.letter, each.name) for each in given]
            # The arms may share everything by request.
            is_watched = plan.caches is not Caches.AS_IS and EVERYTHING not in plan.shared
            wave = StartWave(names, marks, self.shared if is_watched else None)
            made: dict[int, StartResult] = {}
            tasks = [
                asyncio.ensure_future(self._one(place, StartAttempt(plan, *each), wave, made))
                for place, each in enumerate(given.items())
            ]
            held: tuple[str, ...] = ()
            try:
                wave.begin()
                await asyncio.gather(*tasks)
                if memory_limit_s is not None:
                    held = await gpu_memory_held(memory, memory_limit_s)
            finally:
                try:
                    # An error of one start ends the others.
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
                finally:
                    wave.give_back()
                    self._keep_in_order(made, held)
        alone = sum(result.duration_s for result in self.results[-len(arms) :])
        if len(arms) > 1 and alone > 0:
            # What starts that ran at once took, of the sum of their own times.
            self.pace = replace(self.pace, share=min(1.0, (clock.now() - began) / alone))

    async def _one(
        self,
        place: int,
        attempt: StartAttempt,
        wave: StartWave,
        made: dict[int, StartResult],
    ) -> None:
        """One of the starts that run at once."""
        is_due_now = self.plan.control and is_due(attempt.tally.arm, self._compared)
        attempt.tools = replace(
            attempt.tools,
            turn=lambda: wave.turn(place),
            control=is_due_now,
            copies=self._copies(attempt.tally),
        )
        try:
            await attempt.run()
            await wave.settle()
        finally:
            if attempt.failure and self.interruption.received:
                # A signal to the whole job ends its services too, and their deaths may be
                # noticed before the signal.
                attempt.whole = False
            result = attempt.result()
            left = result.stopped.left_behind.things
            result = replace(result, shared=wave.end(place, left))
            made[place] = result
            if self.plan.caches is not Caches.WARM_UP:
                # Compile caches take gigabytes, and no later start uses these.
                shutil.rmtree(self._caches / attempt.tally.name, ignore_errors=True)
            if place == 0 and len(made) == 1:
                self._write(made.pop(0))

    def _copies(self, tally: Tally) -> int:
        """How many requests with one other word the next start of an arm gets, at most."""
        is_measured = any(each.altered for each in self.results)
        if self.plan.given and tally.number > 1:
            # The first start of the experiment has them, in another job.
            return 0
        if not self.plan.control or tally.arm is not Arm.BASELINE or is_measured:
            return 0
        if self.plan.check_requests:
            return len(PromptRegion) * len(self.plan.requests)
        rules = self.plan.rules
        starts = rules.least_baselines + rules.least_candidates
        return copies_within(len(self.plan.requests), self.plan.passes, starts)

    def _keep_in_order(self, made: dict[int, StartResult], held: tuple[str, ...]) -> None:
        """Keep the results in the order that was drawn, whichever ended first."""
        for place in sorted(made):
            result = made[place]
            if place == max(made):
                not_released = (*result.stopped.not_released, *held)
                stopped = replace(result.stopped, not_released=not_released)
                result = replace(result, stopped=stopped)
            self._write(result)

    def _write(self, result: StartResult) -> None:
        self.files.starts.write(result)
        self.results.append(self.same.at_gate(result))

    def _tallies(self, arms: Sequence[Arm]) -> list[Tally]:
        starts = [result.start for result in self.results]
        tallies: list[Tally] = []
        for arm in arms:
            number = free_number(arm, starts)
            if self.plan.given:
                number = next(
                    each
                    for of, each in self.plan.given
                    if of is arm
                    and each not in {start.number for start in starts if start.arm is arm}
                )
            tally = self._tally(arm, number)
            tallies.append(tally)
            starts.append(tally.start(failed=False, outside=False))
        return tallies

    def _places(self, arms: Sequence[Arm]) -> list[str]:
        """Where each of these starts runs: what was drawn with the order."""
        places = self.plan.places
        if not places:
            return [""] * len(arms)
        drawn = drawn_places(self._compared, self.plan.rules, len(places), self.plan.at_once)
        return [places[number] for number in drawn[: len(arms)]]

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
        self, keep: Callable[[Sample], None], name: str, place: str
    ) -> AbstractContextManager[StartTools]:
        is_shared = self.plan.caches is Caches.WARM_UP
        caches = self._caches / (_SHARED if is_shared else name)
        return start_tools(self.plan, caches, keep, self.on_progress, place)

    def _keep(self, sample: Sample) -> None:
        place = self.files.samples.write(sample)
        if sample.digest is not None:
            self.files.outputs.note(sample.digest, self.files.samples.path, place)
