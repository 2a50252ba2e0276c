# SPDX-License-Identifier: Apache-2.0
"""Pure. What of the repository a rule about one pipeline needs, as values and questions."""

from collections.abc import Callable, Mapping

from msgspec import Struct


class CorrectnessTimes(Struct, frozen=True, kw_only=True):
    """What the `[correctness]` settings let `ci-doctor correctness` take. Times in seconds; None if not set.

    retries: candidate starts at the first look. start: the most that one start may take.
    """

    retries: int
    start: float | None = None
    budget: float | None = None


def _unknown(_name: str) -> None:
    """What a caller without a repository knows of any path."""
    return


class PipelineContext(Struct, frozen=True, kw_only=True):
    """The repository around a pipeline.

    correctness: None without `[correctness]` settings. matches: whether a glob (`*`, `**`, `?`,
    `[…]`, `{a,b}`), relative to the root, matches a file; None if that is not known. read: the text of a file, or None. others:
    the texts of the repository's other pipelines, by file.
    """

    correctness: CorrectnessTimes | None = None
    matches: Callable[[str], bool | None] = _unknown
    read: Callable[[str], str | None] = _unknown
    others: Mapping[str, str] = {}
