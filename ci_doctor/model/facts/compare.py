# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor correctness compare`. Pure."""

from msgspec import Struct

from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.answers import (
    AlignedAnswers,
    AnswerMatrix,
    DecisionTest,
    DivergencePositions,
    LevelFacts,
)


class SampleFile(Struct, frozen=True, kw_only=True):
    """A file of samples; `format` is a name that `--format` takes."""

    path: str
    format: str


class ExaminedRequests(Struct, frozen=True, kw_only=True):
    """How many requests differ, and how many of them were read again to find where."""

    differing: int
    read: int


class CompareFacts(Facts, frozen=True, kw_only=True):
    """What two sides of collected samples hold, and what the verdict rests on.

    `aligned_by` is what matches the answers: `id` or `line`. `files`, `answered`, `within` and
    `errors` are by start; `errors` holds the first ones, by request. The rest is as in
    CorrectnessFacts.
    """

    requests: int
    aligned_by: str
    passes: int
    files: dict[str, SampleFile]
    starts: dict[str, int]
    answered: dict[str, int]
    kinds: dict[str, int]
    clusters: tuple[tuple[str, ...], ...]
    matrix: AnswerMatrix
    within: dict[str, int]
    divergence: DivergencePositions | None
    differences_by: dict[str, int]
    examined: ExaminedRequests
    aligned: tuple[AlignedAnswers, ...]
    test: DecisionTest | None
    risk: str | None
    settle: str | None
    errors: dict[str, dict[str, str]]
    levels: tuple[LevelFacts, ...] = ()
