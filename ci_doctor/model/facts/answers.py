# SPDX-License-Identifier: Apache-2.0
"""The facts about answers in reports of `correctness`, `compare` and `replay`. Pure.

Most fields have a default, so that a page can still draw the report of an earlier version.
"""

from msgspec import Struct, field


class StartColumn(Struct, frozen=True, kw_only=True):
    """One start: `A1` of the baseline, `B2` of the candidate; `archived` is of an earlier build."""

    name: str
    arm: str = ""
    archived: bool = False
    ok: bool = True
    answered: int | None = None


class RequestRow(Struct, frozen=True, kw_only=True):
    """One request; `classes` has an entry for each start.

    An entry is the number of its answer among the request's different answers, from 0; None is no
    answer.
    """

    id: str
    kind: str = "unknown"
    classes: tuple[int | None, ...] = ()


class AnswerMatrix(Struct, frozen=True, kw_only=True):
    """Requests against starts; `left_out` requests are not in the rows."""

    starts: tuple[StartColumn, ...] = ()
    requests: tuple[RequestRow, ...] = ()
    left_out: int = 0


class DivergencePositions(Struct, frozen=True, kw_only=True):
    """Where answers diverge, in `unit`s from their beginning, sorted; one position a request."""

    unit: str = "position"
    positions: tuple[float | None, ...] = ()
    min: float | None = None
    median: float | None = None
    max: float | None = None


# A token and its log-probability in nat.
TokenNumber = tuple[str, float | None]


class LogProbRow(Struct, frozen=True, kw_only=True):
    """Log-probabilities at one position, each side's own token first.

    `ulp` is the distance of the two own tokens' in units in the last place of float32, None if they
    are different tokens.
    """

    at: int
    left: tuple[TokenNumber, ...] = ()
    right: tuple[TokenNumber, ...] = ()
    ulp: float | None = None


class AlignedAnswers(Struct, frozen=True, kw_only=True):
    """Two answers to one request: the text `before` they diverge, and what follows in each.

    `field` is the part of the answer that differs, `choice` its number, `position` in `unit`s.
    `gap` is the distance in nat of the two tokens that differ, `ulp` the greatest distance of the
    log-probabilities of the tokens before, in units in the last place of float32.
    """

    request: str
    kind: str = ""
    starts: tuple[str, ...] = ()
    pass_: int | None = field(default=None, name="pass")
    field: str = "text"
    choice: int = 0
    unit: str = "position"
    position: float | None = None
    hardness: str = "unknown"
    gap: float | None = None
    ulp: float | None = None
    before: str = ""
    left: str = ""
    right: str = ""
    logprobs: tuple[LogProbRow, ...] = ()


class DecisionTest(Struct, frozen=True, kw_only=True):
    """The exact test of the decision (correctness/verdict/permutation.py).

    `p` is the share of all `labelings` that dispute as many requests; `smallest_p` the least that
    these starts can reach. A regression is declared at `level` and below, which is at most `alpha`.
    """

    p: float
    alpha: float
    level: float | None = None
    smallest_p: float | None = None
    labelings: int | None = None
    disputed: tuple[str, ...] = ()
