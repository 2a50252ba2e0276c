# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor correctness replay`. Pure."""

from msgspec import Struct

from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.answers import LogProbRow, NumbersApart


class AnswerDivergence(Struct, frozen=True, kw_only=True):
    """Where two answers diverge, as in AlignedAnswers."""

    field: str
    hardness: str
    unit: str
    position: int | None
    choice: int
    before: str
    left: str
    right: str
    gap: float | None
    ulp: int | None
    apart: NumbersApart | None = None


class ReplayFacts(Facts, frozen=True, kw_only=True):
    """One request of a run: the digest of each start's answer by pass, None for no answer.

    `unreadable_lines` of the samples were left out. The rest describes the two answers that were
    put side by side. It is empty, or None, if they are the same.
    """

    request: str
    kind: str
    answers: dict[str, dict[str, str | None]]
    unreadable_lines: int = 0
    starts: tuple[str, ...] = ()
    passes: tuple[int, ...] = ()
    divergence: AnswerDivergence | None = None
    logprobs: tuple[LogProbRow, ...] = ()
