# SPDX-License-Identifier: Apache-2.0
"""A verdict over starts as a value, and the evidence it rests on. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from ci_doctor.correctness.verdict.compare import ArmStart, DifferenceKind
from ci_doctor.model.verdict import Verdict

# "Always the same" and "never the same" mean something for two starts at least.
FEWEST = 2


class OrderDoubt(StrEnum):
    """Why a test that rejects declares no regression: the order of the starts."""

    # Nobody knows in which order the starts were made.
    UNKNOWN = "unknown"
    # The arms lie so far apart in time that what changed with time changed with them.
    TIME = "time"


class InterimLook(Struct, frozen=True, kw_only=True):
    """One look at the evidence, at which a regression may be declared.

    It comes after `starts` starts of both arms. `limit` is the p-value at which it declares one:
    what the spending function allows by then, less what the earlier looks have spent. `p` is None
    before the look.
    """

    starts: int
    limit: float
    p: float | None = None


class PermutationTest(Struct, frozen=True, kw_only=True):
    """The result of the permutation test at the last look.

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


class RequestBound(Struct, frozen=True, kw_only=True):
    """What a green verdict excludes on one request.

    The candidate gave an answer of its own in `differed` of `starts` starts. A fault on the request
    that shows in less than the share `bound` (0 to 1) of all starts is not excluded.
    """

    request: str
    differed: int
    starts: int
    bound: float


class Decision(Struct, frozen=True, kw_only=True):
    """A verdict, its reason in one sentence, and the kind of every request.

    `risk` is what the verdict does not exclude. `bound` is the share of starts, from 0 to 1, from
    which on a green verdict excludes a fault on one request; `bounds` holds it for each request,
    the largest first. `settle` is what would decide an undecided run, in starts. `is_final`: no
    further start can decide it. On the requests `mended` the baseline differs from itself, and the
    candidate always gives the baseline's most frequent answer. `doubt`: the test rejects, and the
    order of the starts may be why.
    """

    verdict: Verdict
    reason: str
    kinds: Mapping[str, DifferenceKind] = {}
    test: PermutationTest | None = None
    risk: str | None = None
    bound: float | None = None
    bounds: tuple[RequestBound, ...] = ()
    settle: str | None = None
    is_final: bool = False
    mended: tuple[str, ...] = ()
    doubt: OrderDoubt | None = None

    def count(self, *kinds: DifferenceKind) -> int:
        """How many requests are of one of these kinds."""
        return sum(kind in kinds for kind in self.kinds.values())


class VerdictEvidence(Struct, frozen=True, kw_only=True):
    """The starts that count, by arm, and the ids of the requests that were sent to them.

    `complete`: every start of the schedule was made. `claimed` is the number of candidate starts that
    do not count, and whose own log is the only witness of an outside cause. `strict`: evidence that
    shows too little makes the run void.
    """

    baseline: Sequence[ArmStart]
    candidate: Sequence[ArmStart]
    requests: Sequence[str]
    complete: bool
    claimed: int = 0
    strict: bool = True

    @property
    def total(self) -> int:
        """How many requests there are."""
        return len(self.requests)

    @property
    def starts(self) -> tuple[ArmStart, ...]:
        """Both arms, the baseline first."""
        return (*self.baseline, *self.candidate)
