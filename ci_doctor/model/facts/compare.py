# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor correctness compare`. Pure."""

from msgspec import Struct

from ci_doctor.model.facts.answers import AnswerFacts


class SampleFile(Struct, frozen=True, kw_only=True):
    """A file of samples; `format` is a name that `--format` takes."""

    path: str
    format: str


class ExaminedRequests(Struct, frozen=True, kw_only=True):
    """How many requests differ, and how many of them were read again to find where."""

    differing: int
    read: int


class CompareFacts(AnswerFacts, frozen=True, kw_only=True):
    """What two sides of collected samples hold, and what the verdict rests on.

    `aligned_by` is what matches the answers: `id` or `line`. `files`, `answered` and `errors` are by
    start; `errors` holds the first ones, by request.
    """

    aligned_by: str
    passes: int
    files: dict[str, SampleFile]
    answered: dict[str, int]
    examined: ExaminedRequests
    errors: dict[str, dict[str, str]]
