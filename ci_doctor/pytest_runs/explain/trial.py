# SPDX-License-Identifier: Apache-2.0
"""A controlled run of one test as a value, and what it showed. Pure."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct

Boundary = Literal["second", "midnight"]


class BudgetSpent(Exception):  # noqa: N818 - it is no error
    """Thrown into a plan that waits for a trial: the time for what it is doing is over."""


class FlakyTrial(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fresh process that runs `before` in this order and then `target`, and nothing else.

    collect: files that are imported though none of their tests runs. earlier: tests that run first
    in a process of their own, whose files stay. hash_seed and seed: PYTHONHASHSEED and the seed of
    the random generators, None to leave both to chance. zone: TZ. slow: milliseconds to run and to
    stand still in turn while the target runs. boundary: the target begins `lead_s` seconds before
    a new second or a new day. is_offline: connections leave the process tree in vain. occupy:
    addresses that are taken. restore: items of state to put back before the target; None reads no
    state at all, and `*` stands for all items.
    """

    target: str
    before: tuple[str, ...] = ()
    collect: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    hash_seed: int | None = None
    seed: int | None = None
    zone: str | None = None
    slow: tuple[float, float] | None = None
    boundary: Boundary | None = None
    lead_s: float = 0.0
    is_offline: bool = False
    occupy: tuple[tuple[str, int], ...] = ()
    restore: tuple[str, ...] | None = None

    @property
    def is_alone(self) -> bool:
        """Whether nothing but its seeds is controlled."""
        return self == FlakyTrial(target=self.target, hash_seed=self.hash_seed, seed=self.seed)

    @property
    def needs_plugin(self) -> bool:
        """Whether an environment and a command line alone cannot make its conditions."""
        plain = (self.slow, self.boundary, self.seed, self.restore)
        special = any(each is not None for each in plain)
        return special or self.is_offline or bool(self.occupy) or bool(self.collect)


class Ending(StrEnum):
    """How the target ended.

    OTHER is neither: it was skipped, did not run, or failed in another way than the suspect did.
    """

    PASSED = "passed"
    FAILED = "failed"
    OTHER = "other"

    @property
    def opposite(self) -> "Ending":
        """Passed for failed and the reverse. OTHER has none and stays itself."""
        if self is Ending.PASSED:
            return Ending.FAILED
        if self is Ending.FAILED:
            return Ending.PASSED
        return Ending.OTHER


class LeftItem(Struct, frozen=True, array_like=True):
    """Something that the tests before the target left: the id of the item, and a sentence."""

    id: str
    sentence: str


class BoundAddress(Struct, frozen=True, array_like=True):
    """An address with a fixed port to which a test bound a socket."""

    test: str
    host: str
    port: int


class TrialResult(Struct, frozen=True, kw_only=True):
    """What a trial showed of its target.

    types: the classes of the exception and of those behind it. duration_s: of the test function.
    connected: hosts outside the trial that the target asked for. absent: tests that were not there.
    """

    ending: Ending
    types: tuple[str, ...] = ()
    duration_s: float = 0.0
    left: tuple[LeftItem, ...] = ()
    bound: tuple[BoundAddress, ...] = ()
    connected: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
