# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether `CUBLAS_WORKSPACE_CONFIG` does anything here, from the digests of starts.

The unit is the start of a process: what happens within one is one observation, however many products
it computes. The arms take turns, so that what drifts with time hits both.
"""

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.checks.gpu_proof.fisher import fisher_p

# In all, over every look at a growing number of starts.
ALPHA: Final = 0.05
# Fewer starts of an arm say nothing about how often something happens.
LEAST_STARTS: Final = 3


class ProductCase(Struct, frozen=True, kw_only=True):
    """One product: a digest of all repetitions, and how many of them differ from one another."""

    digest: str
    differing: int


class ProductStart(Struct, frozen=True, kw_only=True):
    """What programs/products.py prints for one start."""

    cases: dict[str, ProductCase]
    inputs: str
    skipped: dict[str, str] = {}

    @property
    def digest(self) -> str:
        """One for all products."""
        return " ".join(f"{name}={case.digest}" for name, case in sorted(self.cases.items()))


class Arms(Struct, frozen=True, kw_only=True):
    """The starts without the variable, and with it."""

    without: tuple[ProductStart, ...] = ()
    with_it: tuple[ProductStart, ...] = ()

    @property
    def both(self) -> tuple[ProductStart, ...]:
        """All starts."""
        return (*self.without, *self.with_it)


class Effect(Enum):
    """What the variable does to the bytes of the products."""

    NONE_SEEN = "the variable changes nothing here for these products"
    CHANGES_RESULT = "each is steady, and the variable changes the result"
    STEADIES = "the products vary only without the variable"
    UNSTEADIES = "the products vary only with the variable"
    BOTH_VARY = "the products vary with and without the variable"


class WorkspaceComparison(Struct, frozen=True, kw_only=True):
    """How the arms compare.

    `p` is that of Fisher's test: how the starts of each arm divide into those with the most frequent
    digest of all and the others. `varying` are the products whose bytes vary within an arm.
    """

    effect: Effect
    p: float
    digests_without: int
    digests_with: int
    varying: tuple[str, ...]


def compare(arms: Arms) -> WorkspaceComparison:
    """How the arms compare; each has a start at least, and all had the same operands."""
    kinds_without = Counter(start.digest for start in arms.without)
    kinds_with = Counter(start.digest for start in arms.with_it)
    together = kinds_without + kinds_with
    # Of equally frequent ones any: the names of digests say nothing of the arms.
    usual = min(together, key=lambda digest: (-together[digest], digest))
    p = fisher_p(kinds_without[usual], len(arms.without), kinds_with[usual], len(arms.with_it))
    return WorkspaceComparison(
        effect=_effect(arms),
        p=p,
        digests_without=len(kinds_without),
        digests_with=len(kinds_with),
        varying=_varying(arms),
    )


def _effect(arms: Arms) -> Effect:
    match _varies(arms.without), _varies(arms.with_it):
        case True, True:
            return Effect.BOTH_VARY
        case True, False:
            return Effect.STEADIES
        case False, True:
            return Effect.UNSTEADIES
        case _:
            is_same = arms.without[0].digest == arms.with_it[0].digest
            return Effect.NONE_SEEN if is_same else Effect.CHANGES_RESULT


def _varies(starts: Sequence[ProductStart]) -> bool:
    """Whether a product of equal operands had two results, in two starts or within one."""
    is_within = any(case.differing > 1 for start in starts for case in start.cases.values())
    return is_within or len({start.digest for start in starts}) > 1


def _varying(arms: Arms) -> tuple[str, ...]:
    names: list[str] = []
    for starts in (arms.without, arms.with_it):
        for name in starts[0].cases:
            alone = [replace(start, cases={name: start.cases[name]}) for start in starts]
            if _varies(alone) and name not in names:
                names.append(name)
    return tuple(names)


def is_decided(arms: Arms, looks: int) -> bool:
    """Whether no more starts are needed; it is asked after each pair of starts, `looks` times at most.

    Each look may err with a share of ALPHA, so that all together err no more often than ALPHA
    (Bonferroni). Once both arms vary, no further start makes either steady.
    """
    if min(len(arms.without), len(arms.with_it)) < LEAST_STARTS:
        return False
    comparison = compare(arms)
    return comparison.effect is Effect.BOTH_VARY or comparison.p <= ALPHA / looks
