# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor correctness replay`. Pure."""

from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.answers import Divergence, LogProbRow


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
    divergence: Divergence | None = None
    logprobs: tuple[LogProbRow, ...] = ()
