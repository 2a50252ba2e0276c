# SPDX-License-Identifier: Apache-2.0
"""Reads again, the slow and complete way, what the survey could not match."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.collected.entries import Entry
from ci_doctor.correctness.collected.record_tables import Positions
from ci_doctor.correctness.collected.sources import SourcePosition, entry
from ci_doctor.correctness.collected.start_records import CollectedStart
from ci_doctor.correctness.collected.survey import Survey
from ci_doctor.correctness.same_answers import NearAnswers
from ci_doctor.correctness.settings import AnswerLevel, Comparison
from ci_doctor.correctness.tally import LevelDigests, add_prompt_facts, level_digests
from ci_doctor.correctness.verdict.starts import Answer, ArmStart
from ci_doctor.load.canonical import digest

# The outcome of a request whose answers are the same bytes in every start and pass. A digest has 64
# characters, so none is equal to it.
SAME = "="
TWICE = "its id is in the file more than once"


# Every answer whole: byte for byte.
_EVERYTHING = Comparison()


class Collected(Struct, frozen=True, kw_only=True):
    """The starts of both sides, with the outcome of every request.

    `starts` are in the order of the survey's, and `in_time` holds them in order of time, if that is
    recorded; their `levels` hold the odd requests alone, if there
    are any. `comparison` is the gate's. `errors` holds by start's name the first error of
    each request without an answer. `within` counts by start the requests whose passes differ.
    """

    survey: Survey
    starts: tuple[ArmStart, ...]
    errors: Mapping[str, Mapping[str, str]]
    within: Mapping[str, int]
    comparison: Comparison = Comparison()
    in_time: tuple[ArmStart, ...] = ()

    @property
    def judged(self) -> tuple[ArmStart, ...]:
        """The starts as they are judged: in order of time, if that is known."""
        return self.in_time or self.starts

    def answered(self, start: ArmStart) -> int:
        """How many requests a start answered."""
        # What was not read again was answered everywhere.
        missing = sum(start.answers.get(request) is None for request in self.survey.odd)
        return len(self.survey.requests) - missing

    def place(self, start: str, request: str, pass_: int) -> SourcePosition | None:
        """The position of an answer that was read again; None if there is not exactly one."""
        columns = self.survey.odd.get(request)
        if columns is None:
            return None
        names = [each.name for each in self.survey.starts]
        column = columns[names.index(start)]
        positions = column.get(pass_, [])
        # Of two records with one id, neither is known to be the answer.
        if len(positions) != 1:
            return None
        return positions[0]

    def output(self, start: str, request: str, pass_: int) -> dict[str, Any] | None:
        """An answer that was read again."""
        position = self.place(start, request, pass_)
        if position is None:
            return None
        return entry(position).output


class _RequestAnswers:
    """The answers to one request so far, and which of them are the same under the gate's limit."""

    def __init__(self, comparison: Comparison) -> None:
        self._outputs: dict[str, Mapping[str, Any]] = {}
        self._near = None
        if comparison.limit is not None:
            self._near = NearAnswers(comparison.limit, self._outputs)

    def outcome(self, digest: str, output: Mapping[str, Any]) -> str:
        """The outcome of one more answer; without a limit its digest."""
        if self._near is None:
            return digest
        self._outputs[digest] = output
        # All of them are of one request.
        return self._near.outcome("", digest)


class _StartReader:
    """One start while its odd answers are read."""

    def __init__(
        self, start: CollectedStart, answers: dict[str, Answer], passes: int, gate: Comparison
    ) -> None:
        self.answers = answers
        self.levels: dict[AnswerLevel, dict[str, Answer]] = {level: {} for level in AnswerLevel}
        self._gate = gate
        self.errors: dict[str, str] = {}
        self.within = 0
        self._start = start
        self._prompts: dict[str, dict[str, str]] = {}
        self._empty = 0
        self._passes = passes

    def take(self, request: str, columns: Positions, earlier: _RequestAnswers) -> None:
        """The answers to one request over the passes; `earlier` are those of the starts before."""
        digests: list[str] = []
        levels: list[LevelDigests] = []
        within: list[str] = []
        if len(columns) < self._passes:
            self.errors[request] = "no answer"
        for number in sorted(columns):
            answer = _answer(columns[number])
            if answer.digest is None or answer.output is None:
                error = answer.error or "no answer"
                self.errors.setdefault(request, error)
                continue
            digests.append(answer.digest)
            levels.append(level_digests(answer.output, answer.digest))
            within.append(earlier.outcome(answer.digest, answer.output))
            prompt = self._prompts.setdefault(request, {})
            add_prompt_facts(prompt, answer.prompt_facts)
            # An empty answer is reported once, and not once for each pass.
            self._empty += answer.empty and number == 1
        self.within += len(set(digests)) > 1
        self.levels[AnswerLevel.WORDS][request] = self._outcome([each.words for each in levels])
        self.levels[AnswerLevel.TOKENS][request] = self._outcome([each.tokens for each in levels])
        self.levels[AnswerLevel.NUMBERS][request] = self._outcome(digests)
        self.answers[request] = self.levels[self._gate.level][request]
        if self._gate.limit is not None:
            self.answers[request] = self._outcome(within)

    def _outcome(self, digests: list[str]) -> Answer:
        if len(digests) < self._passes:
            return None
        # As in a run of our own (`tally.outcome`): the digest of a single pass stands for itself.
        if self._passes == 1:
            return digests[0]
        return digest(digests)

    def start(self) -> ArmStart:
        """As the decision needs it."""
        prompts = {request: facts for request, facts in self._prompts.items() if facts}
        return ArmStart(
            arm=self._start.arm,
            number=self._start.number,
            answers=self.answers,
            levels=self.levels,
            prompts=prompts,
            empty=self._empty,
        )


def _answer(positions: list[SourcePosition]) -> Entry:
    if len(positions) > 1:
        return Entry(error=TWICE)
    return entry(positions[0])


def reread(survey: Survey, comparison: Comparison = _EVERYTHING) -> Collected:
    """The starts of a survey, with a digest of every answer that was not the same everywhere.

    `comparison` is the gate's. Raises InfraError.
    """
    same: dict[str, Answer] = dict.fromkeys(survey.requests, SAME)
    rereading: dict[str, _StartReader] = {}
    for start in survey.starts:
        # If nothing is odd, no answer will change: all starts share one dict, however many
        # requests.
        answers = dict(same) if survey.odd else same
        rereading[start.name] = _StartReader(start, answers, survey.passes, comparison)
        if not survey.odd:
            rereading[start.name].levels = dict.fromkeys(AnswerLevel, answers)
    for request, columns in survey.odd.items():
        earlier = _RequestAnswers(comparison)
        for each, column in zip(rereading.values(), columns, strict=True):
            each.take(request, column, earlier)
    starts = []
    errors = {}
    within = {}
    for name, each in rereading.items():
        starts.append(each.start())
        within[name] = each.within
        if each.errors:
            errors[name] = each.errors
    return Collected(
        survey=survey,
        starts=tuple(starts),
        errors=errors,
        within=within,
        comparison=comparison,
    )
