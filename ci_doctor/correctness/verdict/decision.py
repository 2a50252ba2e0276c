# SPDX-License-Identifier: Apache-2.0
"""A verdict over starts as a value, the evidence it rests on, and what it does not exclude. Pure."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from ci_doctor.correctness.verdict.mix_test import MISSING, Pattern, Patterns
from ci_doctor.correctness.verdict.starts import ArmStart, DifferenceKind
from ci_doctor.model import binomial
from ci_doctor.model.facts.correctness import PermutationTest, RequestBound
from ci_doctor.model.finding import ShellCommand
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import whole_percent_up

# "Always the same" and "never the same" mean something for two starts at least.
FEWEST = 2


class OrderDoubt(StrEnum):
    """Why a test that rejects declares no regression: the order of the starts."""

    # Nobody knows in which order the starts were made.
    UNKNOWN = "unknown"
    # The arms lie so far apart in time that what changed with time changed with them.
    TIME = "time"


class Decision(Struct, frozen=True, kw_only=True):
    """A verdict, its reason in one sentence, and the kind of every request.

    `risk` is what the verdict does not exclude. `bound` is the share of starts, from 0 to 1, from
    which on a green verdict excludes a fault on one request; `bounds` holds it for each request,
    the largest first. `settle` is what would decide an undecided run, in starts, `step` the command for it. `is_final`: no
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
    step: ShellCommand | None = None
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
    shows too little makes the run void. `manner` is how two answers are the same, in words.
    """

    baseline: Sequence[ArmStart]
    candidate: Sequence[ArmStart]
    requests: Sequence[str]
    complete: bool
    claimed: int = 0
    strict: bool = True
    manner: str = "byte for byte"

    @property
    def total(self) -> int:
        """How many requests there are."""
        return len(self.requests)

    @property
    def starts(self) -> tuple[ArmStart, ...]:
        """Both arms, the baseline first."""
        return (*self.baseline, *self.candidate)


# The confidence with which a bound excludes a fault.
CONFIDENCE = 0.95


def request_bounds(
    by_pattern: Patterns, baseline: Collection[int], candidate: Sequence[int]
) -> tuple[RequestBound, ...]:
    """The bound of each request, the largest first.

    `baseline` and `candidate` are the places of the arms' starts in the patterns. A candidate start
    differs if it gave no answer, or one that no baseline start gave.
    """
    bounds: list[RequestBound] = []
    for pattern, requests in by_pattern.items():
        differed = _own(pattern, baseline, candidate)
        bound = upper_limit(differed, len(candidate))
        for request in requests:
            each = RequestBound(
                request=request, differed=differed, starts=len(candidate), bound=bound
            )
            bounds.append(each)
    return tuple(sorted(bounds, key=lambda each: -each.bound))


def _own(pattern: Pattern, baseline: Collection[int], candidate: Sequence[int]) -> int:
    known = {pattern[place] for place in baseline} - {MISSING}
    return sum(pattern[place] not in known for place in candidate)


@lru_cache(maxsize=4096)
def upper_limit(differed: int, starts: int) -> float:
    """The share of faulty starts, from 0 to 1, that `differed` of `starts` do not exclude.

    Clopper & Pearson's exact limit (1934, doi:10.1093/biomet/26.4.404), with the error 0.05 divided
    over the possible numbers: a half for 0, a quarter for 1, and so on. The number of faulty starts
    never falls while an experiment goes on. So for each number the first moment at which the limit
    would be untrue is the only one that counts, and the limit holds at whatever moment it ends.
    """
    error = (1 - CONFIDENCE) / 2 ** (differed + 1)
    return binomial.upper_limit(differed, starts, error)


_CONFIDENCE = f"(at {100 * CONFIDENCE:.4g}% confidence)"


def remaining_risk(bounds: Sequence[RequestBound]) -> str:
    """What a green verdict leaves open. `bounds` are those of all requests, the largest first."""
    worst = bounds[0]
    starts = "1 candidate start" if worst.starts == 1 else f"{worst.starts} candidate starts"
    if worst.bound >= 1:
        return (
            f"a fault on {worst.request} in any share of starts can hide: the candidate's answer "
            f"to it was its own in {worst.differed} of {starts}"
        )
    bound = whole_percent_up(worst.bound)
    if worst.differed:
        return (
            f"{worst.request} differed in {worst.differed} of {starts}: a fault on it that shows in "
            f"less than {bound}% of starts can hide {_CONFIDENCE}; "
            "so can any fault whose answers the baseline gave too"
        )
    return (
        f"a fault that shows in less than {bound}% of starts can hide behind {starts} "
        f"{_CONFIDENCE}; so can any fault whose answers the baseline gave too"
    )


def any_pair_risk(retries: int) -> str:
    """What the policy `any` lets through.

    One agreeing pair of starts is enough for it: 1 - q^n, if an attempt shows the bug with
    probability q. The sentence takes q = 1/2.
    """
    passed = 1 - 0.5**retries
    return (
        "the policy `any` lets a bug that shows in half of all attempts pass "
        f"{passed:.1%} of the time, if nothing else differs"
    )


def false_alarm_risk(test: PermutationTest) -> str:
    """How often a regression is declared without one."""
    return (
        "a candidate without any fault is called a regression in at most "
        f"{100 * test.alpha:.3g}% of such experiments"
    )
