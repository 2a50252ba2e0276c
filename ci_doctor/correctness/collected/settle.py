# SPDX-License-Identifier: Apache-2.0
"""Reads again, the slow and sure way, what the survey did not find alike, and makes starts of it all."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.collected.entries import Entry
from ci_doctor.correctness.collected.sources import Place, entry
from ci_doctor.correctness.collected.survey import Heard, Survey
from ci_doctor.correctness.tally import add_prompt_facts
from ci_doctor.correctness.verdict.compare import Answer, ArmStart
from ci_doctor.load.canonical import digest

# The outcome of a request whose answers are the same bytes in every start and pass: no digest, which is longer.
SAME = "="
TWICE = "its id is in the file more than once"


class Collected(Struct, frozen=True, kw_only=True):
    """Both sides: `starts` in the order of the survey's, and by start's name the first error of each request without an answer.

    `within` counts by start the requests whose passes differ.
    """

    survey: Survey
    starts: tuple[ArmStart, ...]
    errors: Mapping[str, Mapping[str, str]]
    within: Mapping[str, int]

    def answered(self, start: ArmStart) -> int:
        """How many requests a start answered: what was not read again was answered everywhere."""
        return len(self.survey.requests) - sum(
            start.answers.get(request) is None for request in self.survey.odd
        )

    def place(self, start: str, request: str, pass_: int) -> Place | None:
        """Where an answer stands that was read again; None where there is none, or more than one."""
        index = next(index for index, heard in enumerate(self.survey.starts) if heard.name == start)
        found = self.survey.odd.get(request, [{}] * (index + 1))[index].get(pass_, [])
        return found[0] if len(found) == 1 else None

    def output(self, start: str, request: str, pass_: int) -> dict[str, Any] | None:
        """An answer that was read again."""
        place = self.place(start, request, pass_)
        return entry(place).output if place else None


class _Start:
    """One start while its odd answers are read."""

    def __init__(self, heard: Heard, answers: dict[str, Answer], passes: int) -> None:
        self.heard = heard
        self.answers = answers
        self.errors: dict[str, str] = {}
        self.prompts: dict[str, dict[str, str]] = {}
        self.empty = 0
        self.within = 0
        self._passes = passes

    def take(self, request: str, columns: Mapping[int, list[Place]]) -> None:
        """The answer to one request over the passes."""
        digests: list[str] = []
        for number in range(1, self._passes + 1):
            found = columns.get(number, [])
            read = (
                entry(found[0]) if len(found) == 1 else Entry(error=TWICE if found else "no answer")
            )
            if read.digest is None:
                self.errors.setdefault(request, read.error or "no answer")
            else:
                digests.append(read.digest)
                add_prompt_facts(self.prompts.setdefault(request, {}), read.asked)
                self.empty += read.empty and number == 1
        self.within += len(set(digests)) > 1
        self.answers[request] = self._outcome(digests)

    def _outcome(self, digests: list[str]) -> Answer:
        if len(digests) < self._passes:
            return None
        return digests[0] if self._passes == 1 else digest(digests)

    def start(self) -> ArmStart:
        """As the decision wants it."""
        return ArmStart(
            arm=self.heard.arm,
            number=self.heard.number,
            answers=self.answers,
            prompts={request: asked for request, asked in self.prompts.items() if asked},
            empty=self.empty,
        )


def settle(survey: Survey) -> Collected:
    """The starts of a survey, with a digest for every answer that was not the same everywhere. Raises InfraError."""
    same: dict[str, Answer] = dict.fromkeys(survey.requests, SAME)
    starts = [
        _Start(heard, {**same} if survey.odd else same, survey.passes) for heard in survey.starts
    ]
    for request, columns in survey.odd.items():
        for start, column in zip(starts, columns, strict=True):
            start.take(request, column)
    return Collected(
        survey=survey,
        starts=tuple(start.start() for start in starts),
        errors={start.heard.name: start.errors for start in starts if start.errors},
        within={start.heard.name: start.within for start in starts},
    )
