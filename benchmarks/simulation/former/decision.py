# SPDX-License-Identifier: Apache-2.0
"""A verdict over starts as a value, and the evidence it rests on. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_doctor.model.verdict import Verdict
from simulation.former.compare import ArmStart, DifferenceKind

# "Always the same" and "never the same" mean something for two starts at least.
FEWEST = 2


class PermutationTest(Struct, frozen=True, kw_only=True):
    """The result of the permutation test.

    On each of the `disputed` requests no candidate start shares its answer with a baseline start.
    `p` is the share of all `labelings` that dispute as many; `smallest_p` is the least that this
    many starts can reach. A regression is declared at `level` and below, which is at most `alpha`
    (see `risk.level`).
    """

    disputed: tuple[str, ...]
    p: float
    smallest_p: float
    labelings: int
    alpha: float
    level: float


class Decision(Struct, frozen=True, kw_only=True):
    """A verdict, its reason in one sentence, and the kind of every request.

    `risk` is what the verdict does not exclude. `bound` is the share of starts, from 0 to 1, from
    which on a green verdict excludes a bug; None if it excludes none. `settle` is what would decide an undecided run, in
    starts.
    """

    verdict: Verdict
    reason: str
    kinds: Mapping[str, DifferenceKind] = {}
    test: PermutationTest | None = None
    risk: str | None = None
    bound: float | None = None
    settle: str | None = None

    def count(self, *kinds: DifferenceKind) -> int:
        """How many requests are of one of these kinds."""
        return sum(kind in kinds for kind in self.kinds.values())


class VerdictEvidence(Struct, frozen=True, kw_only=True):
    """The starts that count, by arm, and the ids of the requests that were sent to them.

    `complete`: every start of the schedule was made. `lost`: some candidate starts do not count;
    `claimed` is the number of those whose own log is the only witness of an outside cause.
    """

    baseline: Sequence[ArmStart]
    candidate: Sequence[ArmStart]
    requests: Sequence[str]
    complete: bool
    lost: bool
    claimed: int = 0

    @property
    def total(self) -> int:
        """How many requests there are."""
        return len(self.requests)

    @property
    def starts(self) -> tuple[ArmStart, ...]:
        """Both arms, the baseline first."""
        return (*self.baseline, *self.candidate)

    @property
    def enough(self) -> bool:
        """Whether both arms have enough starts for "always" and "never".

        One candidate start is enough if the schedule asked for no more.
        """
        wanted_one = self.complete and not self.lost
        return len(self.baseline) >= FEWEST and (len(self.candidate) >= FEWEST or wanted_one)
