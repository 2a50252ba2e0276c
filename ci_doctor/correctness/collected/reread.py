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
from ci_doctor.correctness.tally import add_prompt_facts
from ci_doctor.correctness.verdict.compare import Answer, ArmStart
from ci_doctor.load.canonical import digest

# The outcome of a request whose answers are the same bytes in every start and pass. A digest has 64
# characters, so none is equal to it.
SAME = "="
TWICE = "its id is in the file more than once"


class Collected(Struct, frozen=True, kw_only=True):
    """The starts of both sides, with the outcome of every request.

    `starts` are in the order of the survey's. `errors` holds by start's name the first error of
    each request without an answer. `within` counts by start the requests whose passes differ.
    """

    survey: Survey
    starts: tuple[ArmStart, ...]
    errors: Mapping[str, Mapping[str, str]]
    within: Mapping[str, int]

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


class _StartReader:
    """One start while its odd answers are read."""

    def __init__(self, start: CollectedStart, answers: dict[str, Answer], passes: int) -> None:
        self.answers = answers
        self.errors: dict[str, str] = {}
        self.within = 0
        self._start = start
        self._prompts: dict[str, dict[str, str]] = {}
        self._empty = 0
        self._passes = passes

    def take(self, request: str, columns: Positions) -> None:
        """The answers to one request over the passes."""
        digests: list[str] = []
        if len(columns) < self._passes:
            self.errors[request] = "no answer"
        for number in sorted(columns):
            answer = _answer(columns[number])
            if answer.digest is None:
                error = answer.error or "no answer"
                self.errors.setdefault(request, error)
                continue
            digests.append(answer.digest)
            prompt = self._prompts.setdefault(request, {})
            add_prompt_facts(prompt, answer.prompt_facts)
            # An empty answer is reported once, and not once for each pass.
            self._empty += answer.empty and number == 1
        self.within += len(set(digests)) > 1
        self.answers[request] = self._outcome(digests)

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
            prompts=prompts,
            empty=self._empty,
        )


def _answer(positions: list[SourcePosition]) -> Entry:
    if len(positions) > 1:
        return Entry(error=TWICE)
    return entry(positions[0])


def reread(survey: Survey) -> Collected:
    """The starts of a survey, with a digest of every answer that was not the same everywhere.

    Raises InfraError.
    """
    same: dict[str, Answer] = dict.fromkeys(survey.requests, SAME)
    rereading: dict[str, _StartReader] = {}
    for start in survey.starts:
        # If nothing is odd, no answer will change: all starts share one dict, however many
        # requests.
        answers = dict(same) if survey.odd else same
        rereading[start.name] = _StartReader(start, answers, survey.passes)
    for request, columns in survey.odd.items():
        for each, column in zip(rereading.values(), columns, strict=True):
            each.take(request, column)
    starts = []
    errors = {}
    within = {}
    for name, each in rereading.items():
        starts.append(each.start())
        within[name] = each.within
        if each.errors:
            errors[name] = each.errors
    return Collected(survey=survey, starts=tuple(starts), errors=errors, within=within)
