# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: starts the arms again, and finds where they differ.

Nothing here changes a verdict, and what goes wrong here is said and nothing else.
"""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from ci_doctor.correctness.attempt import ExperimentProgress
from ci_doctor.correctness.evidence.files import LOCALISE, SAMPLES, redact_logs
from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.evidence.resume import free_number
from ci_doctor.correctness.evidence.samples import SampleWriter
from ci_doctor.correctness.localise.gate_answers import GateAnswers
from ci_doctor.correctness.localise.local_start import LocalEvidence, LocalStart, make_start
from ci_doctor.correctness.localise.localisation import Localisation
from ci_doctor.correctness.localise.request_file import with_request_file
from ci_doctor.correctness.localise.search import LocalisationSearch
from ci_doctor.correctness.localise.subject import subject_of
from ci_doctor.correctness.localise.trials import (
    LocalisedDifference,
    Trial,
    TrialResult,
    observed,
)
from ci_doctor.correctness.preparation import PreparedExperiment
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm, Caches, ExperimentPlan
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.errors import CiDoctorError
from ci_doctor.render import formatting
from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.redaction import Redactor

# One start of each arm.
_PAIR = len(Arm)


def localise(
    prepared: PreparedExperiment,
    experiment: Experiment,
    decision: Decision,
    on_progress: Callable[[ExperimentProgress], None],
    interruption: Interruption,
) -> Localisation | None:
    """Find the smallest condition under which the arms still differ, in the time that is left.

    None if there is nothing to localise, or it is turned off. A signal ends it. A bug in it is said
    and raises nothing: the verdict stands.
    """
    try:
        return _localise(prepared, experiment, decision, on_progress, interruption)
    except Exception as error:  # noqa: BLE001 - a bug has no bounds
        on_progress(ExperimentProgress(note=f"where the arms differ is unknown: {error!r}"))
        return None


def _localise(
    prepared: PreparedExperiment,
    experiment: Experiment,
    decision: Decision,
    on_progress: Callable[[ExperimentProgress], None],
    interruption: Interruption,
) -> Localisation | None:
    settings = prepared.request.settings
    if not settings.localise or interruption.received:
        return None
    subject = subject_of(prepared.plan, experiment, decision)
    if subject is None:
        return None
    directory = prepared.plan.directory / LOCALISE
    plan = replace(prepared.plan, directory=directory)
    search = _RunningSearch(plan, subject, experiment, on_progress)
    most = settings.localise_starts
    on_progress(
        ExperimentProgress(
            note=f"{subject.request.id} differs: up to {most} more starts find the smallest "
            "condition that still differs (--no-localise turns this off)"
        )
    )
    try:
        search.make(most, prepared.redactor, interruption)
    except (CiDoctorError, OSError) as error:
        search.stopped = str(error)
    finally:
        for removed in redact_logs(directory, prepared.redactor):
            on_progress(ExperimentProgress(note=f"warning: {removed}"))
    return with_request_file(search.value(), directory, prepared.redactor)


class _RunningSearch:
    """A search under way."""

    def __init__(
        self,
        plan: ExperimentPlan,
        subject: LocalisedDifference,
        experiment: Experiment,
        on_progress: Callable[[ExperimentProgress], None],
    ) -> None:
        self.plan = plan
        self.subject = subject
        self.search = LocalisationSearch(subject)
        self.experiment = experiment
        self.on_progress = on_progress
        self.starts: list[StartResult] = []
        self.notes: list[str] = []
        self.stopped = ""

    def make(self, most: int, redactor: Redactor, interruption: Interruption) -> None:
        """Make at most `most` starts. Raises CiDoctorError and OSError."""
        path = self.plan.directory / SAMPLES
        with SampleWriter(path, redactor) as samples, asyncio.Runner() as runner:
            runner.run(self._until_signal(most, samples, interruption))

    async def _until_signal(
        self, most: int, samples: SampleWriter, interruption: Interruption
    ) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are in one
        try:
            with interruption.watch(task):
                await self._pairs(most, samples)
        except asyncio.CancelledError:
            if interruption.received is None:
                raise
            self.stopped = f"interrupted by {interruption.received.name}"

    async def _pairs(self, most: int, samples: SampleWriter) -> None:
        if self.plan.caches is Caches.WARM_UP:
            self.notes.append("each of these starts had empty compile caches, not warm ones")
        while not self.stopped and (trial := self.search.next_trial()):
            self.stopped = self._reason_to_stop(most)
            if not self.stopped:
                await self._pair(trial, samples)
            if self.stopped:
                missing = TrialResult(trial=trial, why=self.stopped)
                self.search.results.append(missing)

    def _reason_to_stop(self, most: int) -> str:
        if len(self.starts) + _PAIR > most:
            return f"the limit of {formatting.amount(most, 'start')} is reached (localise_starts)"
        if clock.now() + sum(self._least_s(arm) for arm in Arm) > self.plan.deadline:
            return "the budget leaves no time for a start of each arm"
        return ""

    def _least_s(self, arm: Arm) -> float:
        """The seconds of the arm's fastest start so far; 0 if it has none."""
        durations = []
        for result in self.experiment.results:
            if result.start.arm is arm and result.failure is None and not result.cut_short:
                durations.append(result.duration_s)  # noqa: PERF401 - one thought a line
        return min(durations, default=0.0)

    async def _pair(self, trial: Trial, samples: SampleWriter) -> None:
        """One start of each arm; the candidate gets what the baseline has answered."""
        outputs = Outputs(self.plan.directory)
        requests = self.search.requests
        evidence = LocalEvidence(
            samples=samples,
            outputs=outputs,
            gate=GateAnswers(self.plan.comparison, outputs),
            requests=requests,
            changed=requests.keys() - set(self.subject.ids),
            tell=self.on_progress,
        )
        # The candidate takes about as long.
        half = clock.now() + (self.plan.deadline - clock.now()) / _PAIR
        baseline = await self._start(
            replace(self.plan, deadline=half), Arm.BASELINE, trial, evidence
        )
        if not baseline.answers:
            return
        ended = replace(trial, blocks=trial.blocks[: len(baseline.answers)])
        candidate = await self._start(self.plan, Arm.CANDIDATE, ended, evidence)
        self.search.results.append(observed(ended, baseline.answers, candidate.answers))
        name = self.subject.request.id
        if len({each[name].answer for each in baseline.answers if name in each}) > 1:
            self.notes.append(f"the baseline gives {name} two answers within one start")

    async def _start(
        self,
        plan: ExperimentPlan,
        arm: Arm,
        trial: Trial,
        evidence: LocalEvidence,
    ) -> LocalStart:
        made = [result.start for result in (*self.experiment.results, *self.starts)]
        start = await make_start(plan, arm, free_number(arm, made), trial, evidence)
        result = start.result
        self.starts.append(result)
        if result.cut_short:
            self.stopped = "the budget ended"
        elif result.failure is not None:
            self.stopped = f"{result.start.name} failed: {result.failure.message}"
        elif result.start.proof_missing:
            self.notes.append(f"{result.start.name}: {'; '.join(result.start.proof_missing)}")
        return start

    def value(self) -> Localisation:
        """What it came to."""
        return Localisation(
            subject=self.subject,
            conclusion=self.search.conclusion(),
            results=tuple(self.search.results),
            requests=self.search.requests,
            starts=tuple(self.starts),
            stopped=self.stopped,
            notes=tuple(dict.fromkeys(self.notes)),
        )
