# SPDX-License-Identifier: Apache-2.0
"""A verdict over starts, as a value, and the evidence that it rests on. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import ArmStart, DifferenceKind
from ci_doctor.model.verdict import Verdict

# "Always the same" and "never the same" are words for two starts at least.
FEWEST = 2


class PermutationTest(Struct, frozen=True, kw_only=True):
    """The permutation test: `disputed` requests are those where no candidate start shares its answer with a baseline start.

    `p` is the share of all `labelings` that dispute as many; `smallest_p` is what this many starts could reach at best.
    A regression is told at `level` and below, which is at most `alpha` (see `risk.level`).
    """

    disputed: tuple[str, ...]
    p: float
    smallest_p: float
    labelings: int
    alpha: float
    level: float


class Decision(Struct, frozen=True, kw_only=True):
    """A verdict, its reason as one sentence, the kind of every request, and what the verdict does not exclude (`risk`).

    `settle` says what would decide where nothing is decided, in starts.
    """

    verdict: Verdict
    reason: str
    kinds: Mapping[str, DifferenceKind] = {}
    test: PermutationTest | None = None
    risk: str | None = None
    settle: str | None = None

    def count(self, *kinds: DifferenceKind) -> int:
        """How many requests are of one of these kinds."""
        return sum(kind in kinds for kind in self.kinds.values())


class VerdictEvidence(Struct, frozen=True, kw_only=True):
    """The starts that count, by arm, and what was asked of them.

    `complete` says that every start of the schedule was made, `lost` that some candidate starts do not count;
    `claimed` is how many of these have nothing but their own word for it.
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
        """Whether "always" and "never" may be said; of the candidate also where no more starts were wanted."""
        wanted_one = self.complete and not self.lost
        return len(self.baseline) >= FEWEST and (len(self.candidate) >= FEWEST or wanted_one)


def of_arm(starts: Sequence[ArmStart], arm: Arm) -> list[ArmStart]:
    """The starts of one arm."""
    return [start for start in starts if start.arm is arm]
