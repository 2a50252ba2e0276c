# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: starts the arms again, and finds where they differ.

Nothing here changes a verdict, and what goes wrong here is said and nothing else.
"""

import asyncio
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.asking import PassPlan
from ci_doctor.correctness.attempt import CACHES, ExperimentProgress, StartAttempt, start_tools
from ci_doctor.correctness.evidence.resume import free_number
from ci_doctor.correctness.evidence.run_identity import SMALLEST, redact_logs
from ci_doctor.correctness.evidence.samples import Outputs, Sample, SampleWriter
from ci_doctor.correctness.localise.search import LocalisationSearch
from ci_doctor.correctness.localise.trials import (
    Localisation,
    LocalisedDifference,
    SentAnswer,
    StartAnswers,
    Trial,
    TrialResult,
    is_of_one,
    observed,
    subject_of,
    words,
)
from ci_doctor.correctness.planning import PreparedExperiment
from ci_doctor.correctness.results import (
    LOCALISE,
    SAMPLES,
    Experiment,
    NearAnswers,
    StartResult,
    Tally,
    level_digests,
)
from ci_doctor.correctness.settings import AnswerLevel, Arm, Caches, Comparison, ExperimentPlan
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.errors import CiDoctorError, InfraError, UsageError
from ci_doctor.load.requests import Request
from ci_doctor.render import formatting
from ci_doctor.system import clock
from ci_doctor.system.files.access import write_atomically
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.redaction import Redactor

_WHOLE = "the command sends it as the run did"


def with_request_file(
    localisation: Localisation, directory: Path, redactor: Redactor
) -> Localisation:
    """`localisation`, with a file in `directory` if the smallest trial needs other requests.

    That is a changed copy, or some requests of the file in another order. A request with a secret is
    not written, and neither is one that the disk refuses: a note says so.
    """
    smallest = localisation.smallest
    if smallest is None or is_of_one(smallest, localisation.subject):
        return localisation
    blocks = smallest.blocks
    if smallest.at_once > 1:
        # Of many groups, the first one that differs.
        made = next((each for each in localisation.results if each.trial == smallest), None)
        place = made.differing[0].block if made and made.differing else 0
        blocks = blocks[place : place + 1]
    sent: Counter[str] = Counter()
    lines = ""
    for name in itertools.chain.from_iterable(block.names for block in blocks):
        sent[name] += 1
        again = f", time {sent[name]}" if sent[name] > 1 else ""
        request = localisation.requests[name]
        fields: dict[str, Any] = {
            "id": f"{name}{again}",
            "path": request.path,
            "body": request.body,
        }
        lines += json.dumps(fields | request.rare_parts()) + "\n"
    if redactor.without_values(lines) != lines:
        note = f"a request of the smallest condition holds a secret and is not written: {_WHOLE}"
        return replace(localisation, notes=(*localisation.notes, note))
    try:
        write_atomically(directory / SMALLEST, lines.encode("ascii"))
    except UsageError as error:
        note = f"{error.message}: {_WHOLE}"
        return replace(localisation, notes=(*localisation.notes, note))
    return replace(localisation, requests_file=f"{directory.name}/{SMALLEST}")


class GateAnswers:
    """Which single answers are the same at the level of the gate, and within its limit."""

    def __init__(self, comparison: Comparison, outputs: Mapping[str, Mapping[str, Any]]) -> None:
        self._level = comparison.level
        self._outputs = outputs
        self._near = None
        if comparison.limit is not None:
            self._near = NearAnswers(comparison.limit, outputs)

    def key(self, question: str, digest: str) -> str:
        """The same text for answers to `question` that are the same.

        Raises InfraError if an answer can no longer be read.
        """
        try:
            return self._key(question, digest)
        except KeyError as error:
            raise InfraError(f"no output has the digest {digest[:12]}") from error

    def _key(self, question: str, digest: str) -> str:
        if self._near is not None:
            return self._near.outcome(question, digest)
        if self._level is AnswerLevel.NUMBERS:
            return digest
        digests = level_digests(self._outputs[digest], digest)
        return digests.words if self._level is AnswerLevel.WORDS else digests.tokens


class LocalEvidence(Struct, frozen=True, kw_only=True):
    """Where the answers of such starts go. `requests` are those that trials name."""

    samples: SampleWriter
    outputs: Outputs
    gate: GateAnswers
    requests: Mapping[str, Request]
    changed: Collection[str]
    tell: Callable[[ExperimentProgress], None]


class LocalStart(Struct, frozen=True, kw_only=True):
    """A start that has ended, and its answers to each block of the trial that it ended."""

    result: StartResult
    answers: StartAnswers


async def make_start(
    plan: ExperimentPlan, arm: Arm, number: int, trial: Trial, evidence: LocalEvidence
) -> LocalStart:
    """Start an arm, send it the trial, and stop it at the plan's deadline at last.

    Raises what `StartAttempt` raises, CancelledError included; no process is left then.
    """
    given: list[dict[str, SentAnswer]] = [{} for _ in trial.blocks]
    ended: list[float] = []

    def keep(sample: Sample) -> None:
        # The time since the first answer, or since the pause before it began.
        before = trial.pause_s if len(trial.blocks) == 1 else 0.0
        ended.append(clock.now())
        answer = _answer(_kept(sample, trial, evidence), evidence)
        at_s = ended[-1] - ended[0] + before
        given[sample.pass_ - 1][sample.id] = replace(answer, at_s=at_s)

    tally = Tally(arm=arm, number=number, ids=(), passes=1)
    caches = plan.directory / CACHES
    # Both arms of a pair on the same one: what differs is not the device.
    device = next(iter(plan.places), "")
    with start_tools(plan, caches / tally.name, keep, evidence.tell, device) as tools:
        attempt = StartAttempt(plan, tally, replace(tools, passes=_passes(trial, evidence)))
        try:
            await attempt.run_in_time()
        finally:
            result = attempt.result()
            shutil.rmtree(caches, ignore_errors=True)
    whole = itertools.takewhile(
        lambda pair: len(pair[0]) == len(pair[1].names), zip(given, trial.blocks, strict=True)
    )
    return LocalStart(result=result, answers=[answers for answers, _ in whole])


def _passes(trial: Trial, evidence: LocalEvidence) -> tuple[PassPlan, ...]:
    passes = [
        PassPlan(
            requests=tuple(evidence.requests[name] for name in block.names),
            concurrency=block.at_once,
            resets=block.resets,
        )
        for block in trial.blocks
    ]
    return (*passes[:-1], replace(passes[-1], pause_s=trial.pause_s))


def _kept(sample: Sample, trial: Trial, evidence: LocalEvidence) -> Sample:
    """The sample as it is written: with its condition, and with a body that stands in no file."""
    meta = {**sample.meta, "condition": words(trial)}
    if sample.id in evidence.changed:
        meta["body"] = evidence.requests[sample.id].body
    written = replace(sample, meta=meta)
    place = evidence.samples.write(written)
    if sample.digest is not None:
        evidence.outputs.note(sample.digest, evidence.samples.path, place)
    return written


def _answer(sample: Sample, evidence: LocalEvidence) -> SentAnswer:
    if sample.digest is None:
        return SentAnswer(answer=None)
    output = sample.output or {}
    tokens = (sample.prompt_facts.get("prompt_tokens"), output.get("completion_tokens"))
    choices = output.get("choices") or [{}]
    prompt_tokens, answer_tokens = (each if type(each) is int else 0 for each in tokens)
    return SentAnswer(
        # Of each request its own: answers to another prompt have nothing to do with these.
        answer=evidence.gate.key(sample.id, sample.digest),
        text=text_of(choices[0]),
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        finish=str(choices[0].get("finish_reason") or ""),
        choices=len(choices),
    )


def text_of(choice: Mapping[str, Any]) -> str:
    """What a choice of either API says, or else the arguments of its calls; empty if there is neither."""
    message = choice.get("message") or {}
    said = choice.get("text") or message.get("content")
    if isinstance(said, str):
        return said
    calls = message.get("tool_calls") or ()
    return "\n".join(_unescaped(each.get("arguments")) for each in calls)


def _unescaped(arguments: str | Mapping[str, Any] | None) -> str:
    """Arguments, or JSON of them, with each sign as itself; what is no JSON stays."""
    value: object = arguments or ""
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except ValueError:
            return arguments
    return json.dumps(value, ensure_ascii=False) if value else ""


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
        try:
            with interruption.watch():
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
            results=tuple(self.search.told),
            requests=self.search.requests,
            starts=tuple(self.starts),
            stopped=self.stopped,
            notes=tuple(dict.fromkeys(self.notes)),
        )
