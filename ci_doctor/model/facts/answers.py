# SPDX-License-Identifier: Apache-2.0
"""The facts about answers in reports of `correctness`, `compare` and `replay`. Pure.

Most fields have a default, so that a page can still draw the report of an earlier version.
"""

from enum import StrEnum

from msgspec import Struct, field

from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.archive import ArchiveUseFacts


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


class NumbersApart(Struct, frozen=True, kw_only=True):
    """How far two lists of `count` numbers (a vector, scores) lie apart.

    They differ at `places` places, the `first` from 0 on. `largest` is the greatest difference of
    two numbers, `ulp` the greatest in units in the last place of float32. `cosine` is the cosine
    distance, None for a single number and for a vector of zeros.
    """

    count: int
    places: int
    first: int
    largest: float
    ulp: int
    cosine: float | None = None

    @property
    def words(self) -> str:
        """`differs at 3 places, cosine distance 2e-07, largest 4 ULP`."""
        if self.count == 1:
            return f"differs by {self.largest:.2g}, {self.ulp:,} ULP"
        noun = "place" if self.places == 1 else "places"
        words = f"differs at {self.places:,} {noun}"
        if self.cosine is not None:
            words = f"{words}, cosine distance {self.cosine:.2g}"
        return f"{words}, largest {self.ulp:,} ULP"


# A token and its log-probability in nat.
TokenNumber = tuple[str, float | None]


class LogProbRow(Struct, frozen=True, kw_only=True):
    """Log-probabilities at one position, each side's own token first; a side may end before it.

    `ulp` is the distance of the two own tokens' in units in the last place of float32, None if they
    are different tokens.
    """

    at: int
    left: tuple[TokenNumber, ...] = ()
    right: tuple[TokenNumber, ...] = ()
    ulp: float | None = None


class PositionUnit(StrEnum):
    """What a position counts, from 0."""

    TOKEN = "token"  # noqa: S105
    CHARACTER = "character"


class Hardness(StrEnum):
    """What kind of difference it is; the hardest first."""

    # The other side's token is outside the most probable ones, or too far away for rounding.
    HARD = "hard"
    # One answer is the beginning of the other, or they stopped for different reasons.
    LENGTH = "length"
    # No log-probabilities at this token.
    UNKNOWN = "unknown"
    # One side has no answer, or not this choice.
    MISSING = "missing"
    # The same words; only log-probabilities differ.
    NUMBERS = "numbers"
    # Each side's token is among the other's most probable ones, and rounding may flip them.
    NEAR_TIE = "near-tie"


class Divergence(Struct, frozen=True, kw_only=True):
    """Where two outputs diverge: in `field` of choice number `choice` at `position`.

    `field` is `text`, `content` …, `logprobs` if only numbers differ, or a path
    (`choices[0].finish_reason`). `position` counts `unit`s, None if no position can be named. `before`
    is the text that both share, `left` and `right` what follows in each, all three cut short. `gap` is
    how far apart both sides' tokens are, in nat, or at least, if a token is not listed. `ulp` is the
    greatest distance of the log-probabilities of the last tokens before, in units in the last place
    of float32. `apart` is set if the answers are numbers (vectors, scores), and only those differ.
    """

    field: str = "text"
    hardness: Hardness = Hardness.UNKNOWN
    unit: PositionUnit = PositionUnit.CHARACTER
    position: int | None = None
    choice: int = 0
    before: str = ""
    left: str = ""
    right: str = ""
    gap: float | None = None
    ulp: int | None = None
    apart: NumbersApart | None = None


class AlignedAnswers(Divergence, frozen=True, kw_only=True):
    """A request whose answers differ, and the pair that shows most of it, with its log-probabilities.

    `starts` are those of both sides, `pass_` (`pass` in JSON) the pass of both.
    """

    request: str
    kind: str = ""
    starts: tuple[str, ...] = ()
    pass_: int | None = field(default=None, name="pass")
    logprobs: tuple[LogProbRow, ...] = ()


class LevelFacts(Struct, frozen=True, kw_only=True):
    """The verdict at one level (`words`, `tokens`, `numbers`) over the starts of a run.

    The `gate` is the level that decides. `differing` requests have more than one outcome, within
    the `limit` if there is one. `apart` requests hold numbers that are not the same; the largest
    distances are those in the first `read` of them, in nat (of vectors: absolute) and in units in
    the last place of float32.
    """

    level: str
    gate: bool = False
    verdict: str = "unknown"
    limit: str | None = None
    differing: int = 0
    apart: int = 0
    read: int = 0
    largest_nat: float | None = None
    largest_ulp: int | None = None


class InterimLook(Struct, frozen=True, kw_only=True):
    """One look at the evidence, at which a regression may be declared.

    It comes after `starts` starts of both arms. `limit` is the p-value at which it declares one:
    what the spending function allows by then, less what the earlier looks have spent. `p` is None
    before the look.
    """

    starts: int
    limit: float
    p: float | None = None


class RequestBound(Struct, frozen=True, kw_only=True):
    """What a green verdict excludes on one request.

    The candidate gave an answer of its own in `differed` of `starts` starts. A fault on the request
    that shows in less than the share `bound` (0 to 1) of all starts is not excluded.
    """

    request: str
    differed: int
    starts: int
    bound: float


class PermutationTest(Struct, frozen=True, kw_only=True):
    """The result of the permutation test at the last look (correctness/verdict/mix_test.py).

    `disputed` are the requests whose mix of answers differs most between the arms. `p` is the share
    of the `labelings` whose largest difference is as large; `smallest_p` is the least that this
    many starts can reach. A regression is declared at `level` and below (see `InterimLook.limit`); `alpha`
    holds over all `looks`.
    """

    disputed: tuple[str, ...]
    p: float
    smallest_p: float
    labelings: int
    alpha: float
    level: float
    looks: tuple[InterimLook, ...] = ()


class AnswerFacts(Facts, frozen=True, kw_only=True):
    """What starts answered, whether a run made them or their samples were collected.

    `starts` counts by arm, `kinds` requests by kind of difference, `differing` requests by pair of
    starts (`A1/B1`), `within` by start the requests that vary between its passes, `differences_by`
    differing requests by hardness. `clusters` are names of starts that answered everything alike.
    `aligned` are the hardest differences. `archived` counts what was used of an archive. `levels`
    holds the verdict at each level.
    """

    requests: int
    starts: dict[str, int]
    kinds: dict[str, int]
    clusters: tuple[tuple[str, ...], ...]
    matrix: AnswerMatrix
    differing: dict[str, int]
    within: dict[str, int]
    divergence: DivergencePositions | None
    differences_by: dict[str, int]
    aligned: tuple[AlignedAnswers, ...]
    test: PermutationTest | None
    risk: str | None
    settle: str | None
    suspects: tuple[str, ...] = ()
    archived: ArchiveUseFacts | None = None
    levels: tuple[LevelFacts, ...] = ()
