# SPDX-License-Identifier: Apache-2.0
"""What an experiment leaves behind, as values: starts, their answers, their outcomes at the gate's level. Pure.

A command that cannot run at all ends in the same way on every machine. If it ran in the baseline word
for word, it is written well: then the change broke it, and that is a regression.

Being near is not transitive: 0.1 is near 0.2, 0.2 is near 0.3, and 0.1 may not be near 0.3. So the
answers to a request are taken in the order in which they were given. The first is an outcome. Each
later one belongs to the earliest outcome whose first answer it is near, or else is a new outcome.
The labels of the arms play no part in it, so a permutation of the labels leaves it as it is.
"""

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.settings import AnswerLevel, Arm, ArmPlan, Comparison, NumberLimit, Rules
from ci_doctor.correctness.verdict.looks import FEWEST
from ci_doctor.correctness.verdict.starts import Answer, ArmStart
from ci_doctor.decodable import decodable
from ci_doctor.load.answer_items import AnswerParts, parts
from ci_doctor.load.canonical import digest, encode
from ci_doctor.load.looks import FEWEST_PROMPTS, AnswerLooks, LooksOfAnswers, words_of
from ci_doctor.load.prompts import is_free, is_greedy
from ci_doctor.load.requests import Request
from ci_doctor.model.facts.correctness import AlteredAnswer, ControlOutcome, ProofReading, SharedUse
from ci_doctor.model.facts.launch import (
    FailureKind,
    LeftBehind,
    ServiceFailure,
    ServiceRun,
    StopResult,
)
from ci_doctor.model.outcome import ErrorKind, Failure
from ci_doctor.services.spec import blamed_words, file_name, is_sudden

T = TypeVar("T", bound=Struct)

# The samples in a report directory, and the folder of the starts that localise a difference.
SAMPLES = "samples.jsonl"
LOCALISE = "localise"


class ExperimentEnding(StrEnum):
    """Why no further start was made."""

    COMPLETE = "complete"
    BUDGET = "budget"
    SIGINT = "SIGINT"
    SIGTERM = "SIGTERM"
    SIGHUP = "SIGHUP"
    SIGQUIT = "SIGQUIT"

    @property
    def is_signal(self) -> bool:
        """Whether a signal ended it."""
        return self not in {ExperimentEnding.COMPLETE, ExperimentEnding.BUDGET}


class StartResult(Struct, frozen=True, kw_only=True):
    """One start: its answers (`start`), its `failure`, and its duration in seconds.

    It is what is recorded, archived, resumed and reported: a line of `starts.jsonl` and the first line
    of an archived file hold it as it is, but for the answers that stand in its `samples` lines of
    samples.jsonl (see `without_answers`).

    `digests` leads from a request to its outputs by pass, and `errors` to its first error. `services`
    are its services as `launch` has them, and `stopped` is what their stop brought to light.
    `facts` are what was loaded
    and effective while it ran. A start that was `cut_short` by the budget or a signal is no
    evidence, and neither is the `warm_up`. `proof` is what was read of the arm's proof, `shared` what it
    did with files that both arms reach, `altered` what one other word in a prompt changed.
    """

    start: ArmStart
    failure: ServiceFailure | None
    duration_s: float
    digests: Mapping[str, Mapping[int, str]]
    errors: Mapping[str, str]
    samples: int = 0
    services: tuple[ServiceRun, ...] = ()
    stopped: StopResult = StopResult(duration_s=0.0)
    facts: Mapping[str, str] = {}
    cut_short: bool = False
    warm_up: bool = False
    proof: tuple[ProofReading, ...] = ()
    shared: SharedUse = SharedUse()
    altered: tuple[AlteredAnswer, ...] = ()

    @property
    def logs(self) -> tuple[str, ...]:
        """The log of each service that was started."""
        return tuple(each.log for each in self.services if each.log is not None)

    @property
    def ready_after_s(self) -> float | None:
        """The seconds until its last service was ready; None if that never came."""
        begun = [each.started_at for each in self.services if each.started_at is not None]
        ready = {
            each.name: each.started_at + each.ready_s
            for each in self.services
            if each.started_at is not None and each.ready_s is not None
        }
        # A service may need a second start, on another port.
        are_ready = ready.keys() == {each.name for each in self.services}
        return max(ready.values()) - min(begun) if ready and are_ready else None

    @property
    def counts(self) -> bool:
        """Whether its answers are evidence."""
        return not self.cut_short and not self.warm_up


def all_left(results: Sequence[StartResult]) -> LeftBehind:
    """What all starts have left behind together."""
    left = [result.stopped.left_behind for result in results]
    return LeftBehind(
        things=tuple(thing for each in left for thing in each.things),
        unseen=tuple(dict.fromkeys(name for each in left for name in each.unseen)),
    )


def distinct_errors(errors: Mapping[str, str], most: int) -> list[tuple[str, str]]:
    """At most `most` errors (request, text), no text twice."""
    # A server that is down fails every request in the same words: one of them is enough.
    first: dict[str, str] = {}
    for request, text in errors.items():
        first.setdefault(text, request)
    return [(request, text) for text, request in first.items()][:most]


def without_answers(result: StartResult) -> StartResult:
    """A start without what its lines of samples.jsonl hold."""
    start = replace(result.start, answers={}, levels={}, prompts={}, looks=AnswerLooks())
    return replace(result, start=start, digests={}, errors={})


def with_answers(record: StartResult, answers: StartResult) -> StartResult:
    """A start with the answers of another: those that were read again, or archived."""
    other = answers.start
    start = replace(
        record.start,
        answers=other.answers,
        levels=other.levels,
        prompts=other.prompts,
        looks=other.looks,
    )
    return replace(record, start=start, digests=answers.digests, errors=answers.errors)


def encoded(value: Struct) -> Any:
    """Builtins of what holds a StartResult, for JSON; `decoded` makes the same of them."""
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)


def decoded(value: object, kind: type[T]) -> T:
    """The struct in a value that JSON gave. Raises msgspec.ValidationError."""
    return msgspec.convert(
        value, decodable(kind), dec_hook=lambda of, plain: of(plain), str_keys=True
    )


class Experiment(Struct, frozen=True, kw_only=True):
    """The starts in the order in which they were made, and every output by its digest.

    `archived` are the baseline starts of earlier builds that stand beside them. `comparison` is the
    gate's: the answers of each start are outcomes at its level. `deadline` is the monotonic time that
    the first start left for the rest; None if it is the plan's own.
    """

    results: tuple[StartResult, ...]
    outputs: Mapping[str, Mapping[str, Any]]
    ending: ExperimentEnding
    rules: Rules = Rules()
    comparison: Comparison = Comparison()
    archived: tuple[StartResult, ...] = ()
    deadline: float | None = None

    @property
    def compared(self) -> tuple[StartResult, ...]:
        """Every start whose answers are evidence, archived ones first."""
        return (*self.archived, *(result for result in self.results if result.counts))

    @property
    def starts(self) -> tuple[ArmStart, ...]:
        """The answers of each of them."""
        return tuple(result.start for result in self.compared)


# By these names httpx says that a connection broke: in sending, reading or being made.
BROKEN_CONNECTIONS = ("ConnectError", "ReadError", "RemoteProtocolError", "WriteError")


def is_broken(error: str) -> bool:
    """Whether the error of a request says that its connection broke."""
    return error.startswith(BROKEN_CONNECTIONS)


# The shortest queue of connections in common use is of 5 (`request_queue_size` of Python's socketserver).
_FITS_EACH_QUEUE = 4


def crowd_advice(results: Sequence[StartResult], at_once: int) -> str | None:
    """What to do about connections of a living server that broke with so many requests at once.

    None if none broke, or only those of requests that no start has ever answered: these may be at fault.
    """
    answered = {request for result in results for request, by in result.digests.items() if by}
    broke = any(
        is_broken(error) and request in answered
        for result in results
        if result.failure is None
        for request, error in result.errors.items()
    )
    if not broke or at_once < 2:
        return None
    fewer = _FITS_EACH_QUEUE if at_once > _FITS_EACH_QUEUE else 1
    return (
        f"Send fewer requests at once (`--concurrency {fewer}`): connections broke with {at_once} at once, "
        "and the same requests were answered at another time. Or let the server queue more connections."
    )


def unusable(results: Sequence[StartResult], arms: Mapping[Arm, ArmPlan]) -> Failure | None:
    """Why no further start makes sense: the command of an arm cannot run; None if none is known."""
    wrong = _wrong_command(results, arms)
    if wrong is None:
        return None
    arm, failure, reason = wrong
    return Failure(
        message=f"the command of the {arm} ({failure.service}) cannot run as it is written: "
        f"{reason}",
        hint="correct the command; on another machine it would end in the same way",
        kind=ErrorKind.USAGE,
    )


def unusable_arm(results: Sequence[StartResult], arms: Mapping[Arm, ArmPlan]) -> Arm | None:
    """The arm that `unusable` is about."""
    wrong = _wrong_command(results, arms)
    return wrong[0] if wrong else None


def _wrong_command(
    results: Sequence[StartResult], arms: Mapping[Arm, ArmPlan]
) -> tuple[Arm, ServiceFailure, str] | None:
    """The arm whose command cannot run, how it failed last, and why it is the command's fault."""
    for arm in Arm:
        failures = _failures(results, arm)
        if failures:
            is_baseline = arm is Arm.BASELINE
            reason = _of_baseline(failures) if is_baseline else _of_candidate(failures[-1], arms)
            if reason:
                return arm, failures[-1], reason
    return None


def _failures(results: Sequence[StartResult], arm: Arm) -> list[ServiceFailure]:
    """How the starts of an arm failed; empty if one of them came to be ready or was cut short."""
    failures = []
    for result in results:
        failure = result.failure
        if result.start.arm is not arm:
            continue
        is_over = failure is not None and failure.kind is FailureKind.DIED and not failure.was_ready
        if failure is None or result.cut_short or not is_over:
            return []
        failures.append(failure)
    return failures


def _of_baseline(failures: Sequence[ServiceFailure]) -> str | None:
    last = failures[-1]
    if last.misuse:
        return last.misuse
    # Without a word in the log, one such end is not enough. A log that names a cause tells what
    # ended a command that ran.
    sudden = [
        each
        for each in failures
        if each.cause is None and is_sudden(each.exit_code, each.duration_s)
    ]
    if len(failures) >= FEWEST and len(sudden) == len(failures):
        return f"it ends with exit code {last.exit_code} within a second in every start"
    return None


def _of_candidate(failure: ServiceFailure, arms: Mapping[Arm, ArmPlan]) -> str | None:
    """Why the candidate's command is wrong; None if the change may have broken it."""
    if failure.misuse is None or failure.misused is None:
        return None
    own = arms[Arm.CANDIDATE].specs[failure.service].words()
    blamed = {file_name(word) for word in blamed_words(failure.misused, own)}
    baseline = arms[Arm.BASELINE]
    known = {file_name(word) for name in baseline.names for word in baseline.specs[name].words()}
    # What the baseline's command holds too did run there, as far as anybody knows. Each arm may
    # have a checkout of its own, so files are the same by their names.
    if not blamed or not known.isdisjoint(blamed):
        return None
    return failure.misuse


def relative(path: str | Path, directory: Path) -> str:
    """A path inside the report directory relative to it; any other path as it is."""
    # A report directory may be moved, or downloaded as an artifact: its own logs stay findable.
    place = Path(path)
    return str(place.relative_to(directory) if place.is_relative_to(directory) else place)


# From a request to the digests of its answers by pass, which count from 1.
PassDigests = dict[str, dict[int, str]]


class LevelDigests(Struct, frozen=True, kw_only=True):
    """SHA-256 of the words, and of words and tokens together."""

    words: str
    tokens: str


def level_digests(output: Mapping[str, Any], whole: str | None = None) -> LevelDigests:
    """The digests of a canonical output; `whole` is its own digest, if it is known.

    An answer of numbers alone (a vector) has no other words: at each level it is all that it holds.
    """
    divided = parts(output)
    if divided.wordless:
        own = whole or digest(output)
        return LevelDigests(words=own, tokens=own)
    return LevelDigests(words=digest(divided.words), tokens=digest([divided.words, divided.tokens]))


def outcome(digests: Mapping[int, str], passes: int) -> Answer:
    """A request's outcome over its passes; None if a pass has no answer.

    The digest itself for one pass, a digest of the digests for more.
    """
    if len(digests) < passes:
        return None
    # By the number of the pass, whatever the order of arrival.
    ordered = [digests[number] for number in sorted(digests)]
    return ordered[0] if passes == 1 else digest(ordered)


# So many words begin an answer.
_BEGINNING = 2


def add_prompt_facts(facts: dict[str, str], reported: Mapping[str, object]) -> None:
    """Add to `facts` what the server reports of a prompt, in words.

    If two passes report different values, the fact holds both: such passes did not get the same
    prompt. The name of the model is left out, because the arms may serve it under two names.
    """
    for key, value in reported.items():
        text = str(value) if isinstance(value, int) else f"sha256 {digest(value)[:12]}"
        before = facts.get(key, text)
        if key != "model":
            facts[key] = text if text == before else f"{before}, then {text}"


@lru_cache(maxsize=1 << 16)
def _shared(facts: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """One object for the facts of all prompts that have the same."""
    return dict(facts)


class Tally:
    """The samples of one start so far.

    `errors` holds the first error of each request that had one; `unanswered` of the samples have one. `words` and `tokens` hold the digests of
    words, and of words and tokens, as `digests` does of all. `requests` are those that are sent, if they are known.
    """

    def __init__(
        self,
        *,
        arm: Arm,
        number: int,
        ids: Sequence[str],
        passes: int,
        requests: Sequence[Request] = (),
    ) -> None:
        self.arm = arm
        self.number = number
        self.name = f"{arm.letter}{number}"
        self.count = 0
        self.unanswered = 0
        self.errors: dict[str, str] = {}
        self.proof_missing: tuple[str, ...] = ()
        self.digests: PassDigests = {}
        self.words: PassDigests = {}
        self.tokens: PassDigests = {}
        self._ids = ids
        self._passes = passes
        self._prompts: dict[str, dict[str, str]] = {}
        self._empty: set[str] = set()
        self._looks = LooksOfAnswers(requests)
        self._beginnings: PassDigests = {}
        self._greedy = {each.id for each in requests if is_free(each) and is_greedy(each)}

    @property
    def variety(self) -> Mapping[str, tuple[int, int]]:
        """Each answered request: how many different words its answer has, and how many characters."""
        return self._looks.variety

    def add(self, sample: Sample) -> None:
        """Count `sample` under its request and pass; keep its digests, its error, its facts."""
        self.count += 1
        request = sample.id
        number = sample.pass_
        if sample.error is not None or sample.digest is None:
            # The first error: later ones are often its consequences.
            error = sample.error or "no answer"
            self.unanswered += 1
            self.errors.setdefault(request, error)
            return
        # One object for the id: those of two samples are two.
        request = sys.intern(request)
        self.digests.setdefault(request, {})[number] = sample.digest
        # Interned: even where numbers differ, most starts have the same words, and one copy is kept.
        words = sys.intern(sample.words_digest or sample.digest)
        tokens = sys.intern(sample.tokens_digest or sample.digest)
        self.words.setdefault(request, {})[number] = words
        self.tokens.setdefault(request, {})[number] = tokens
        prompt = self._prompts.setdefault(request, {})
        add_prompt_facts(prompt, sample.prompt_facts)
        if sample.output is not None:
            if request in self._greedy:
                begins = words_of(sample.output).split(maxsplit=_BEGINNING)[:_BEGINNING]
                self._beginnings.setdefault(request, {})[number] = " ".join(begins)
            self._looks.add(request, sample.output, sample.prompt_facts)
        if sample.empty:
            self._empty.add(request)

    def start(
        self,
        *,
        failed: bool,
        outside: bool,
        claimed: bool = False,
        of_job: bool = False,
        control: ControlOutcome | None = None,
        devices: str = "",
    ) -> ArmStart:
        """The answers of this start, compared in everything (see `SameAnswers`).

        `control` is what came of the request with a changed prompt, `devices` what was drawn for it.
        """
        return ArmStart(
            arm=self.arm,
            number=self.number,
            answers=self._outcomes(self.digests),
            levels={
                AnswerLevel.WORDS: _interned(self._outcomes(self.words)),
                AnswerLevel.TOKENS: _interned(self._outcomes(self.tokens)),
            },
            failed=failed,
            outside=outside,
            claimed=claimed,
            of_job=of_job,
            prompts={each: _shared(tuple(facts.items())) for each, facts in self._prompts.items()},
            empty=len(self._empty),
            in_part=sum(len(passes) < self._passes for passes in self.digests.values()),
            looks=replace(self._looks.value(), restless=self._is_restless()),
            proof_missing=self.proof_missing,
            control=control,
            devices=devices,
        )

    def result(self, **fields: Any) -> StartResult:
        """A start that came to its end with these answers; `fields` are others of StartResult."""
        start = self.start(failed=False, outside=False)
        made = {"start": start, "failure": None, "duration_s": 0.0, **fields}
        return StartResult(digests=self.digests, errors=self.errors, **made)

    def _is_restless(self) -> bool:
        """Whether each answer to a greedy request begins otherwise in each pass, and there are some.

        A cache that changes the numbers changes words later in most answers, and not the first ones of all.
        """
        given = [list(self._beginnings.get(each, {}).values()) for each in self._greedy]
        return len(given) >= FEWEST_PROMPTS and all(
            len(set(each)) == len(each) > 1 for each in given
        )

    def _outcomes(self, digests: Mapping[str, Mapping[int, str]]) -> dict[str, Answer]:
        return {each: outcome(digests.get(each, {}), self._passes) for each in self._ids}


def _interned(outcomes: Mapping[str, Answer]) -> dict[str, Answer]:
    return {request: answer and sys.intern(answer) for request, answer in outcomes.items()}


# --- which answers count as the same, within a limit if there is one ---

Outputs = Mapping[str, Mapping[str, Any]]


class NearAnswers:
    """The outcomes of each request so far, by the digest of the first answer of each.

    Only digests are kept. `outputs` holds the answers by their digests.
    """

    def __init__(self, limit: NumberLimit, outputs: Outputs) -> None:
        self._limit = limit
        self._outputs = outputs
        self._firsts: dict[str, list[str]] = {}

    def outcome(self, request: str, digest: str) -> str:
        """The outcome that an answer belongs to. Raises what a look-up in `outputs` raises."""
        firsts = self._firsts.setdefault(request, [])
        # Nearly always: then nothing is read.
        if digest in firsts:
            return digest
        if firsts:
            answer = parts(self._outputs[digest])
            for first in firsts:
                if are_near(answer, parts(self._outputs[first]), self._limit):
                    return first
        firsts.append(digest)
        return digest


def are_near(left: AnswerParts, right: AnswerParts, limit: NumberLimit) -> bool:
    """Whether words and tokens are the same, and every number is within the limit."""
    return (
        limit.allows(left.numbers, right.numbers)
        and len(left.alternatives) == len(right.alternatives)
        and all(
            _list_alike(ours, theirs, limit)
            for ours, theirs in zip(left.alternatives, right.alternatives, strict=True)
        )
        and encode([left.words, left.tokens]) == encode([right.words, right.tokens])
    )


def _list_alike(left: Mapping[str, float], right: Mapping[str, float], limit: NumberLimit) -> bool:
    """Whether two lists of alternatives are the same within the limit.

    A token that only one side lists may have been the last of the other: it is then at most as
    probable there as the least probable one listed, and its distance is at least the one to that.
    """
    if not left or not right:
        return not left and not right
    common = [token for token in left if token in right]
    if not limit.allows([left[each] for each in common], [right[each] for each in common]):
        return False
    return _rest_is_near(left, right, limit) and _rest_is_near(right, left, limit)


def _rest_is_near(
    listed: Mapping[str, float], other: Mapping[str, float], limit: NumberLimit
) -> bool:
    least = min(other.values())
    alone = [number for token, number in listed.items() if token not in other]
    above = [number for number in alone if number > least]
    return limit.allows(above, [least] * len(above))


class SameAnswers:
    """Which answers count as the same in one experiment.

    It takes the starts in the order in which they were made, archived ones first: under a limit an
    outcome depends on the starts before it.
    """

    def __init__(self, comparison: Comparison, outputs: Outputs) -> None:
        self._level = comparison.level
        self._outputs = outputs
        self._near = None
        if comparison.limit is not None:
            self._near = NearAnswers(comparison.limit, outputs)

    def at_gate(self, result: StartResult) -> StartResult:
        """The result as the verdict needs it: its answers are outcomes at the gate's level.

        The next start may only be given once this one is made. A start that is no evidence stays as
        it is. Raises InfraError if an answer can no longer be read.
        """
        if not result.counts:
            return result
        start = result.start
        levels = {**start.levels, AnswerLevel.NUMBERS: start.answers}
        answers = levels.get(self._level)
        if answers is None or self._near is not None:
            answers = {
                request: None if answer is None else self.outcome(request, result.digests[request])
                for request, answer in start.answers.items()
            }
        return replace(result, start=replace(start, answers=answers, levels=levels))

    def outcome(self, request: str, passes: Mapping[int, str]) -> Answer:
        """The outcome of these answers to a request, each given by the digest of its output."""
        outcomes = {}
        for number in sorted(passes):
            given = passes[number]
            if self._near is not None:
                given = self._near.outcome(request, given)
            elif self._level is not AnswerLevel.NUMBERS:
                levels = level_digests(self._outputs[given], given)
                given = levels.words if self._level is AnswerLevel.WORDS else levels.tokens
            outcomes[number] = given
        return outcome(outcomes, len(passes))
