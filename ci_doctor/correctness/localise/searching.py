# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: makes the starts of a search under noise, and keeps them to be resumed.

A gatherer leads from a batch of planned starts to their evidence, in any order. Here is the one that
makes them on this machine, at once if they have devices or cores of their own. What the search makes of the evidence is decided by
replaying all of it, so a search that is resumed goes on as if it had never ended.
"""

import asyncio
import contextlib
import json
import random
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.attempt import CACHES, ExperimentProgress, StartAttempt, start_tools
from ci_doctor.correctness.devices import without_gpu_memory
from ci_doctor.correctness.evidence.resume import Resumed, StartWriter, resume
from ci_doctor.correctness.evidence.run_identity import (
    RunIdentity,
    clear,
    redact_logs,
    write_run,
)
from ci_doctor.correctness.evidence.samples import EvidenceFile, Outputs, Sample, SampleWriter
from ci_doctor.correctness.localise.noise import NoisySearch, SearchEnd
from ci_doctor.correctness.localise.watched import (
    PlannedStart,
    ReplayedSearch,
    StartEvidence,
    replayed,
)
from ci_doctor.correctness.results import SAMPLES, SameAnswers, StartResult, Tally
from ci_doctor.correctness.settings import Arm, ExperimentPlan
from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError
from ci_doctor.system import clock
from ci_doctor.system.files.access import write_atomically
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.processes.limited_runs import LimitedRuns
from ci_doctor.system.secrets.redaction import Redactor

POINTS = "search.jsonl"
# The machine is at fault, if so many starts in a row end for a reason outside the change.
_OUTSIDE_IN_A_ROW = 3
_WORDS_OF_BUILD = 300


# It may give back fewer than were planned; those are planned again.
Gatherer = Callable[[Sequence[PlannedStart]], Iterable[StartEvidence]]


class Place(Protocol):
    """Where starts at a point are made."""

    def plan(self, point: int) -> ExperimentPlan:
        """The plan whose candidate is what is started there. Raises InfraError."""

    def build(self, point: int) -> tuple[tuple[str, ...], Path, Mapping[str, str], Path] | None:
        """The words, directory and environment of a build, and where it is noted; None if there is none."""


class LocalStarts:
    """The gatherer that makes starts on this machine. Those of a batch run at once, each at a place of its own."""

    def __init__(
        self,
        place: Place,
        samples: SampleWriter,
        outputs: Outputs,
        tell: Callable[[ExperimentProgress], None],
        interruption: Interruption,
    ) -> None:
        self.place = place
        self.samples = samples
        self.outputs = outputs
        self.tell = tell
        self.interruption = interruption
        # So many starts of a point were made at a place.
        self._made_at: Counter[tuple[int, str]] = Counter()

    def __call__(self, planned: Sequence[PlannedStart]) -> Iterable[StartEvidence]:
        """Make these starts. A signal ends it; what is cut short by it is left out, or says so."""
        made: list[StartEvidence] = []
        with asyncio.Runner() as runner:
            runner.run(self._until_signal(planned, made))
        return sorted(made, key=lambda evidence: planned.index(evidence.planned))

    async def _until_signal(
        self, planned: Sequence[PlannedStart], made: list[StartEvidence]
    ) -> None:
        try:
            with self.interruption.watch():
                ready: list[tuple[PlannedStart, ExperimentPlan]] = []
                # One after the other: two starts may need the same build.
                for each in planned:
                    plan = self.place.plan(each.point)
                    broken = await self._build(each, plan)
                    if broken:
                        made.append(StartEvidence(planned=each, broken=broken))
                    else:
                        ready.append((each, plan))
                await self._at_once(ready, made)
        except asyncio.CancelledError:
            if self.interruption.received is None:
                raise

    async def _at_once(
        self, ready: Sequence[tuple[PlannedStart, ExperimentPlan]], made: list[StartEvidence]
    ) -> None:
        async def one(planned: PlannedStart, plan: ExperimentPlan, device: str) -> None:
            result = await self._start(planned, plan, device)
            made.append(StartEvidence(planned=planned, result=result))

        tasks = []
        for (planned, plan), device in zip(ready, self._places(ready), strict=True):
            own = without_gpu_memory(plan)[0] if len(ready) > 1 else plan
            tasks.append(asyncio.ensure_future(one(planned, own, device)))
        try:
            await asyncio.gather(*tasks)
        finally:
            # An error of one start ends the others.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _places(self, ready: Sequence[tuple[PlannedStart, ExperimentPlan]]) -> Iterator[str]:
        """A place for each start: of those that are left one where its point was started least.

        Else the ends would have one place each, and differ by that.
        """
        left: list[str] = []
        for planned, plan in ready:
            if not left:
                left = random.sample(plan.places, len(plan.places)) or [""] * len(ready)
            place = min(left, key=lambda each: self._made_at[planned.point, each])
            left.remove(place)
            self._made_at[planned.point, place] += 1
            yield place

    async def _build(self, planned: PlannedStart, plan: ExperimentPlan) -> str:
        """Build what is started at this point, once. Returns why it cannot be."""
        build = self.place.build(planned.point)
        if build is None:
            return ""
        words, directory, environ, note = build
        if note.exists():
            return note.read_text(encoding="utf-8")
        self.tell(ExperimentProgress(note=f"{planned.name}  building: {shlex.join(words)}"))
        runs = LimitedRuns()
        left_s = max(1.0, plan.deadline - clock.now())
        try:
            ran = await asyncio.to_thread(
                runs.run, words, cwd=directory, environ=environ, timeout_s=left_s, is_together=True
            )
        except OSError as error:
            raise InfraError(f"the build cannot be started: {error}") from error
        finally:
            runs.stop()
        if ran.exit_code is None:
            # The budget, and not the build: it is tried again if the search goes on.
            return ""
        log = plan.directory / "logs" / planned.name / "build-1.log"
        write_atomically(log, ran.stdout.encode())
        broken = ""
        if ran.exit_code:
            broken = f"the build ends with {ran.exit_code}: {ran.last_words[:_WORDS_OF_BUILD]}"
        # Whole or not at all: an empty note is a build that ended well.
        write_atomically(note, broken.encode())
        return broken

    async def _start(self, planned: PlannedStart, plan: ExperimentPlan, device: str) -> StartResult:
        tally = Tally(
            arm=planned.arm,
            number=planned.number,
            ids=plan.ids,
            passes=plan.passes,
            requests=plan.requests,
        )
        caches = plan.directory / CACHES / planned.name
        with start_tools(plan, caches, self._keep, self.tell, device) as tools:
            attempt = StartAttempt(plan, tally, tools)
            try:
                await attempt.run_in_time()
            finally:
                if attempt.failure and self.interruption.received:
                    attempt.whole = False
                result = attempt.result()
                shutil.rmtree(caches, ignore_errors=True)
        return result

    def _keep(self, sample: Sample) -> None:
        place = self.samples.write(sample)
        if sample.digest is not None:
            self.outputs.note(sample.digest, self.samples.path, place)


class _PointLine(Struct, frozen=True, kw_only=True):
    """A line of `search.jsonl`: the point of a start by its name, or why a point is broken."""

    # In decimals: a subset of many settings is a large number.
    point: str
    start: str = ""
    broken: str = ""


class SearchRun:
    """A search with its evidence in a report directory; `new_search` makes one without any."""

    def __init__(
        self,
        plan: ExperimentPlan,
        identity: RunIdentity,
        new_search: Callable[[], NoisySearch],
        redactor: Redactor,
        tell: Callable[[ExperimentProgress], None],
    ) -> None:
        self.plan = plan
        self.identity = identity
        self.new_search = new_search
        self.redactor = redactor
        self.tell = tell
        self.space = new_search().space
        self.evidence: list[StartEvidence] = []
        self.stopped = ""
        self._outside = 0

    @property
    def replayed(self) -> ReplayedSearch:
        """What the evidence comes to."""
        return replayed(self.new_search(), self.evidence, self.plan.ids)

    def make(
        self,
        place: Place,
        interruption: Interruption,
        *,
        is_resumed: bool = False,
        given: PlannedStart | None = None,
    ) -> None:
        """Make starts until the search ends, the budget does, or a signal comes; or only the one that is `given`.

        Raises UsageError and InfraError.
        """
        directory = self.plan.directory
        before = self._resumed() if is_resumed else self._begun()
        same = SameAnswers(self.plan.comparison, before.outputs)
        self._take(before, same)
        outputs = before.outputs
        if not isinstance(outputs, Outputs):
            raise InfraError("the outputs of the run cannot be written")
        try:
            with (
                SampleWriter(directory / SAMPLES, self.redactor, append=True) as samples,
                StartWriter(directory, self.redactor, append=True) as starts,
                _PointWriter(directory / POINTS, append=True) as points,
            ):
                gather = LocalStarts(place, samples, outputs, self.tell, interruption)
                if given is None:
                    self._until_end(gather, _Files(starts, points, same), interruption)
                    return
                for evidence in gather([given]):
                    self.evidence.append(evidence)
                    if evidence.result is not None:
                        starts.write(evidence.result)
        finally:
            shutil.rmtree(directory / CACHES, ignore_errors=True)
            for removed in redact_logs(directory, self.redactor):
                self.tell(ExperimentProgress(note=f"warning: {removed}"))

    def _until_end(self, gather: Gatherer, files: "_Files", interruption: Interruption) -> None:
        while not self.stopped and (planned := self.next_starts(self.plan.at_once)):
            for each in planned:
                files.points.note(_PointLine(point=str(each.point), start=each.name))
            for evidence in gather(planned):
                self._note(evidence, files)
            if interruption.received is not None:
                self.stopped = f"interrupted by {interruption.received.name}"

    def next_starts(self, count: int) -> list[PlannedStart]:
        """At most so many starts to make now; none at the end, of which `stopped` may hold the reason."""
        state = self.replayed
        if state.watched is not None and not state.watched.answers:
            self.stopped = self._of_good_end()
            return []
        planned = self._planned(state.search.next_points(count))
        self.stopped = self._reason_to_stop() if planned else ""
        return [] if self.stopped else planned

    def take_broken(self, evidence: StartEvidence) -> None:
        """That nothing can be started at a point. Raises InfraError for an end of the search."""
        if evidence.planned.point in {self.space.good, self.space.bad}:
            raise InfraError(f"an end of the search cannot be built: {evidence.broken}")
        self.evidence.append(evidence)

    def _of_good_end(self) -> str:
        """Why nothing can be compared with the good end."""
        made = [each.result for each in self.evidence if each.planned.point == self.space.good]
        failures = [each.failure for each in made if each is not None and each.failure is not None]
        if len(failures) > len(made) / 2:
            return f"the good end does not start: {failures[-1].message}"
        watched = self.replayed.watched
        if watched is not None and not watched.noisy:
            return "no start of the good end answered a request"
        return "the good end does not repeat its answers to any request"

    def _note(self, evidence: StartEvidence, files: "_Files") -> None:
        planned, result = evidence.planned, evidence.result
        if result is None:
            self.take_broken(evidence)
            line = _PointLine(point=str(planned.point), broken=evidence.broken)
            files.points.note(line)
            self.tell(ExperimentProgress(note=f"{planned.name}  skipped: {evidence.broken}"))
            return
        if result.cut_short:
            self.stopped = self.stopped or "the budget ended"
            return
        self._outside = self._outside + 1 if result.start.outside else 0
        if self._outside >= _OUTSIDE_IN_A_ROW:
            failure = result.failure.message if result.failure else ""
            raise InfraError(f"{self._outside} starts in a row fail outside the change: {failure}")
        if not result.start.outside:
            files.starts.write(result)
            result = files.same.at_gate(result)
            self.evidence.append(replace(evidence, result=result))
            state = self.replayed
            word = {True: "differs", False: "agrees", None: "cannot be tested"}
            if planned.name in state.shown:
                end = state.search.end
                left = "" if end is SearchEnd.OPEN else f"; {end}"
                note = f"{planned.name}  {word[state.shown[planned.name]]}{left}"
                self.tell(ExperimentProgress(note=note))

    def _planned(self, points: Sequence[int]) -> list[PlannedStart]:
        starts = [each.result.start for each in self.evidence if each.result is not None]
        taken = {arm: {start.number for start in starts if start.arm is arm} for arm in Arm}
        planned = []
        for point in points:
            arm = Arm.BASELINE if point == self.space.good else Arm.CANDIDATE
            number = min(set(range(1, len(taken[arm]) + 2)) - taken[arm])
            taken[arm].add(number)
            planned.append(PlannedStart(arm=arm, number=number, point=point))
        return planned

    def _reason_to_stop(self) -> str:
        took = [
            each.result.duration_s
            for each in self.evidence
            if each.result is not None and each.result.failure is None
        ]
        if clock.now() + min(took, default=0.0) > self.plan.deadline:
            return "the budget leaves no time for another start"
        return ""

    def _begun(self) -> Resumed:
        directory = self.plan.directory
        clear(directory)
        (directory / POINTS).unlink(missing_ok=True)
        write_run(directory, self.identity)
        return Resumed(results=(), outputs=Outputs(directory))

    def _resumed(self) -> Resumed:
        plan = self.plan
        return resume(
            plan.directory,
            self.identity,
            ids=plan.ids,
            passes=plan.passes,
            arms=plan.arms,
            requests=plan.requests,
        )

    def _take(self, before: Resumed, same: SameAnswers) -> None:
        """The evidence of a search that was ended, in the order in which it came."""
        lines = _point_lines(self.plan.directory / POINTS)
        points = {line.start: int(line.point) for line in lines if line.start}
        for line in lines:
            if line.broken:
                planned = PlannedStart(arm=Arm.CANDIDATE, number=0, point=int(line.point))
                self.evidence.append(StartEvidence(planned=planned, broken=line.broken))
        for result in before.results:
            start = result.start
            if start.name in points:
                planned = PlannedStart(arm=start.arm, number=start.number, point=points[start.name])
                result = same.at_gate(result)  # noqa: PLW2901
                self.evidence.append(StartEvidence(planned=planned, result=result))
        if before.results or before.again:
            note = f"resuming with {len(before.results)} starts"
            self.tell(ExperimentProgress(note=note))


class _PointWriter(EvidenceFile):
    """Appends to `search.jsonl`."""

    def note(self, line: _PointLine) -> None:
        """Write a line. Raises InfraError if the disk refuses it."""
        self.append_line(json.dumps(msgspec.to_builtins(line)).encode("ascii") + b"\n")


class _Files(Struct, frozen=True):
    starts: StartWriter
    points: _PointWriter
    same: SameAnswers


def _point_lines(path: Path) -> list[_PointLine]:
    """Its lines; a torn one, or one whose point is no number, is left out."""
    lines = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(ValueError, msgspec.ValidationError):
                made = msgspec.convert(json.loads(line), decodable(_PointLine))
                int(made.point)
                lines.append(made)
    return lines
