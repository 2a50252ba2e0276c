# SPDX-License-Identifier: Apache-2.0
"""Pure. A controlled run of one test as a value, what it showed, and how sure several make us."""

import math
import re
from collections.abc import Callable, Generator, Sequence
from enum import StrEnum
from typing import Literal

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable

# --- a controlled run of one test as a value, and what it showed ---

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


# --- a test whose flakiness is to be explained, as the suite's run left it ---

# pytest shortens `AssertionError: assert …` to its second half.
_ASSERTION = re.compile(r"assert\b")
_CLASS = re.compile(r"(?:\w+\.)*(\w+)(?::|$)")


class Suspect(Struct, frozen=True, kw_only=True):
    """A test that failed, and the circumstances.

    before: the tests that ran before it in the same process, in order. error: the class of the
    exception with which it failed, None if that is unknown. hash_seed and seed: those of the
    suite's run, None if it had none that is known. always_failed: it failed in each attempt so far,
    so that nothing but another order is tried.
    """

    test: str
    before: tuple[str, ...] = ()
    error: str | None = None
    hash_seed: int | None = None
    seed: int | None = None
    always_failed: bool = False


def error_class(message: str | None) -> str | None:
    """The class of the exception in the message of a failure, without its module; None if unknown."""
    lines = (message or "").strip().splitlines()
    if not lines:
        return None
    if _ASSERTION.match(lines[0]):
        return "AssertionError"
    header = _CLASS.match(lines[0])
    return None if header is None else header.group(1)


# --- how sure a run of trials makes us: exact tests and limits ---

# The chance that a test failing at random, at whatever rate, is given a wrong kind: a strict
# confirmation is p^5 (1-p)^5 <= 2^-10 for any rate p, a lenient one adds its own level, and there
# are at most 16 of both: 16 * (2^-10 + 0.0005) = 0.024. The order takes up to three of them.
PAIRS = 5
MORE_PAIRS = 12
LEVEL = 0.0005
MOST_CONFIRMATIONS = 16
OF_ORDER = 3
WRONG_KIND_AT_MOST = MOST_CONFIRMATIONS * (2.0 ** (-2 * PAIRS) + LEVEL)


def schedule(pairs: int) -> tuple[bool, ...]:
    """For each of `2 * pairs` runs, whether it is made under the cause; otherwise it is a control.

    The order is that of Thue and Morse. Strict turns would let a test whose outcome alternates from
    run to run agree with any cause.
    """
    return tuple(index.bit_count() % 2 == 0 for index in range(2 * pairs))


def fisher(failed: int, other_failed: int, runs: int) -> float:
    """The one-sided p-value of Fisher's exact test (1935), for two conditions of `runs` runs each.

    It is the share of all ways to deal the failures to the runs that give the first condition at
    least `failed` of them.
    """
    failures = failed + other_failed
    ways = math.comb(2 * runs, failures)
    extreme = 0
    for count in range(failed, min(runs, failures) + 1):
        extreme += math.comb(runs, count) * math.comb(runs, failures - count)
    return extreme / ways


# --- which few of many candidates are enough to bring about an ending ---
# Candidates are the tests before a suspect, or the items of state that they leave.

Candidates = tuple[str, ...]
TrialOf = Callable[[Candidates], FlakyTrial]
Search = Generator[FlakyTrial, TrialResult, Candidates]


def one_of(candidates: Sequence[str], trial_of: TrialOf, wanted: Ending) -> Search:
    """The one candidate that is enough, in ceil(log2(n)) trials for n candidates.

    It takes for granted that there is one: a half that is not enough leaves the other half. The
    caller checks the result, which is wrong if several candidates are needed together.
    """
    left = tuple(candidates)
    while len(left) > 1:
        middle = len(left) // 2
        # The later half first: what runs last is the least likely to have been undone.
        result = yield trial_of(left[middle:])
        left = left[middle:] if result.ending is wanted else left[:middle]
    return left


def some_of(candidates: Sequence[str], trial_of: TrialOf, wanted: Ending) -> Search:
    """A small set that is enough, none of which can be left out.

    The algorithm is ddmin of Zeller & Hildebrandt, "Simplifying and isolating failure-inducing
    input" (IEEE TSE 28(2), 2002, doi:10.1109/32.988498): O(n^2) trials at worst.
    """
    left = tuple(candidates)
    # Smaller parts meet the same subsets again.
    insufficient: set[Candidates] = set()
    parts = 2
    while len(left) > 1:
        smaller = yield from _smaller(left, parts, insufficient, trial_of, wanted)
        if smaller is not None:
            is_part = len(smaller) <= -(-len(left) // parts)
            left = smaller
            parts = 2 if is_part else max(2, parts - 1)
        elif parts >= len(left):
            break
        else:
            parts = min(len(left), 2 * parts)
    return left


def _smaller(
    left: Candidates, parts: int, insufficient: set[Candidates], trial_of: TrialOf, wanted: Ending
) -> Generator[FlakyTrial, TrialResult, Candidates | None]:
    """One part of `left` that is enough, or all but one part; None if there is none.

    Subsets in `insufficient` are not tried; those that turn out so are added.
    """
    size = -(-len(left) // parts)
    chunks = [left[begin : begin + size] for begin in range(0, len(left), size)]
    rests = [left[:begin] + left[begin + size :] for begin in range(0, len(left), size)]
    # Of two parts each is the rest of the other.
    tries = [*reversed(chunks), *(rests if len(chunks) > 2 else [])]
    for subset in tries:
        if subset in insufficient:
            continue
        result = yield trial_of(subset)
        if result.ending is wanted:
            return subset
        insufficient.add(subset)
    return None


# --- whether a condition decides how a test ends: runs with it and without it, in mixed order ---


def strictly(
    cause: FlakyTrial, control: FlakyTrial, expected: Ending
) -> Generator[FlakyTrial, TrialResult, bool]:
    """Whether `cause` ends as `expected` and `control` in the opposite way, five times of five.

    The first trial that ends otherwise decides against it.
    """
    for is_cause in schedule(PAIRS):
        result = yield cause if is_cause else control
        if result.ending is not (expected if is_cause else expected.opposite):
            return False
    return True


def mostly(
    cause: FlakyTrial, control: FlakyTrial, expected: Ending
) -> Generator[FlakyTrial, TrialResult, bool]:
    """Whether `cause` ends as `expected` more often than `control` does.

    For conditions that make an ending likely, not certain. It is decided after five pairs that all
    agree, or else after twelve pairs by an exact test.
    """
    hits = 0
    misses = 0
    for index, is_cause in enumerate(schedule(MORE_PAIRS), start=1):
        result = yield cause if is_cause else control
        is_hit = result.ending is expected
        if is_cause:
            hits += is_hit
        else:
            misses += is_hit
        if index == 2 * PAIRS:
            if hits == PAIRS and misses == 0:
                return True
            if hits - misses < 2:
                return False
    return fisher(hits, misses, MORE_PAIRS) <= LEVEL


# --- from what the plugin wrote to the result of a trial ---

# In place of the class of an exception.
TIMED_OUT = "time limit"
CRASHED = "crash"


class WrittenResult(Struct, frozen=True, kw_only=True):
    """The file of the plugin, `_ci_doctor_trial.py`. `outcome` is None while the target runs."""

    outcome: str | None = None
    began: bool = False
    types: tuple[str, ...] = ()
    duration_s: float = 0.0
    left: tuple[LeftItem, ...] = ()
    bound: tuple[BoundAddress, ...] = ()
    connected: tuple[tuple[str, str], ...] = ()
    absent: tuple[str, ...] = ()


def result_of(
    trial: FlakyTrial, written: bytes | None, exit_code: int | None, error: str | None
) -> TrialResult:
    """The result of a trial whose process ended with `exit_code`, None if its time limit ended it.

    written: None if the plugin wrote nothing. error: the class of the suspect's own exception; a
    failure by another one is not the suspect's. None lets any failure count.
    """
    if written is None:
        return TrialResult(ending=Ending.OTHER)
    raw = msgspec.json.decode(written, type=decodable(WrittenResult))
    types = raw.types
    outcome = raw.outcome
    if raw.began and outcome is None:
        outcome = "failed"
        types = (TIMED_OUT,) if exit_code is None else (CRASHED,)
    return TrialResult(
        ending=_ending(outcome, types, error),
        types=types,
        duration_s=raw.duration_s,
        left=raw.left,
        bound=raw.bound,
        connected=tuple(host for test, host in raw.connected if test == trial.target),
        absent=raw.absent,
    )


def _ending(outcome: str | None, types: tuple[str, ...], error: str | None) -> Ending:
    if outcome == "passed":
        return Ending.PASSED
    if outcome == "failed" and (error is None or error in types):
        return Ending.FAILED
    return Ending.OTHER
