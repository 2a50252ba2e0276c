# SPDX-License-Identifier: Apache-2.0
"""Which of many hypotheses explains noisy starts: a posterior with unknown rates. Pure.

Each start shows a fault or does not. A hypothesis says of each start whether the fault is in it. A start
with the fault shows it at some rate r, one without it at some rate q < r. Neither rate is known: both
are summed out over a grid. Of nothing at all, there is one rate for all starts.

So a probability is conditional on three things: the rates stay the same over the search, starts are
independent, and one of the hypotheses is true.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

import numpy as np
from msgspec import Struct

# A difference of rates that is smaller takes hundreds of starts to find, and is no hypothesis here.
LEAST_GAP = 0.2
_Q = (0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_R = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.94, 0.97, 0.99, 1.0)  # fmt: skip
# How probable it is beforehand that a start without the fault never shows it, and one with it always does.
_NEVER, _ALWAYS = 0.3, 0.1
# That nothing makes a difference. What a person has seen differ does so, mostly.
_NOTHING = 0.25

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def _spread(rates: Sequence[float], certain: int, mass: float, power: float) -> Array:
    """A density over the rates, with a mass at the certain one. The others weigh less, the farther they are."""
    grid = np.array(rates)
    spread: Array = np.gradient(grid) * (1 - abs(grid - grid[certain])) ** power
    spread *= (1 - mass) / spread.sum()
    spread[certain] += mass
    return spread


def _logarithms(rates: Array) -> tuple[Array, Array]:
    """Of each rate and of the rest, with a number in place of minus infinity that 0 can be multiplied with."""
    tiny = 1e-300
    of, of_rest = np.log(np.maximum(rates, tiny)), np.log(np.maximum(1 - rates, tiny))
    return of, of_rest


_Q_MASS, _R_MASS = _spread(_Q, 0, _NEVER, 8.0), _spread(_R, -1, _ALWAYS, 1.0)
_PAIRS = [(i, j) for i, q in enumerate(_Q) for j, r in enumerate(_R) if r >= q + LEAST_GAP - 1e-9]
_Q_OF = np.array([_Q[i] for i, _ in _PAIRS])
_R_OF = np.array([_R[j] for _, j in _PAIRS])
_BOTH_MASS = np.array([_Q_MASS[i] * _R_MASS[j] for i, j in _PAIRS])
_BOTH = np.log(_BOTH_MASS / _BOTH_MASS.sum())
_ONE_OF = np.array((*_Q, *_R))
_ONE = np.log(np.concatenate((_Q_MASS, _R_MASS)) / 2)
(_LOG_Q, _LOG_NOT_Q), (_LOG_R, _LOG_NOT_R) = _logarithms(_Q_OF), _logarithms(_R_OF)
_LOG_ONE, _LOG_NOT_ONE = _logarithms(_ONE_OF)


def _summed(values: Array) -> float:
    most = float(values.max())
    return most + math.log(float(np.exp(values - most).sum()))


def _terms(bad_shown: int, bad: int, good_shown: int, good: int) -> Array:
    terms: Array = (
        _BOTH
        + bad_shown * _LOG_R
        + (bad - bad_shown) * _LOG_NOT_R
        + good_shown * _LOG_Q
        + (good - good_shown) * _LOG_NOT_Q
    )
    return terms


@lru_cache(maxsize=1 << 18)
def _likelihood(bad_shown: int, bad: int, good_shown: int, good: int) -> float:
    """The logarithm of the probability of these starts, if they are rightly divided."""
    return _summed(_terms(bad_shown, bad, good_shown, good))


@lru_cache(maxsize=1 << 12)
def _likelihood_of_nothing(shown: int, starts: int) -> float:
    return _summed(_ONE + shown * _LOG_ONE + (starts - shown) * _LOG_NOT_ONE)


class Rates(Struct, frozen=True):
    """How often a start without the fault shows it all the same, and how often one with it does."""

    good: float
    bad: float


def _entropy(share: Array | float) -> Array:
    clipped = np.clip(share, 1e-12, 1 - 1e-12)
    made: Array = -(clipped * np.log2(clipped) + (1 - clipped) * np.log2(1 - clipped))
    return made


class Posterior:
    """Hypotheses by number, and what the starts so far make of them.

    `prior` needs no sum of 1. A last hypothesis is added: nothing makes a difference.
    """

    def __init__(self, prior: Sequence[float] | Array) -> None:
        weights = np.asarray(prior, dtype=np.float64)
        self._prior = np.log(np.maximum(weights / weights.sum() * (1 - _NOTHING), 1e-300))
        # Of each hypothesis: the starts that have the fault by it, and those of them that show it.
        self._bad = np.zeros(len(weights), dtype=np.int64)
        self._bad_shown = np.zeros(len(weights), dtype=np.int64)
        self.starts = 0
        self.shown = 0
        self._made: tuple[Array, float] | None = None

    def add(self, faulty: Flags, *, shown: bool) -> None:
        """One more start: by which hypotheses the fault is in it, and whether it shows it."""
        self._bad += faulty
        self.starts += 1
        if shown:
            self._bad_shown += faulty
            self.shown += 1
        self._made = None

    def copy(self) -> "Posterior":
        """The same, to go on apart."""
        other = object.__new__(Posterior)
        other.__dict__.update(self.__dict__)
        other._bad, other._bad_shown = self._bad.copy(), self._bad_shown.copy()
        return other

    def _values(self) -> tuple[Array, float]:
        if self._made is None:
            codes = self._bad * (self.starts + 1) + self._bad_shown
            distinct, places = np.unique(codes, return_inverse=True)
            values = []
            for code in distinct:
                bad, bad_shown = divmod(int(code), self.starts + 1)
                good_shown = self.shown - bad_shown
                values.append(_likelihood(bad_shown, bad, good_shown, self.starts - bad))
            logs = self._prior + np.array(values)[places]
            nothing = math.log(_NOTHING) + _likelihood_of_nothing(self.shown, self.starts)
            most = max(float(logs.max()), nothing)
            weights, rest = np.exp(logs - most), math.exp(nothing - most)
            total = float(weights.sum()) + rest
            self._made = weights / total, rest / total
        return self._made

    @property
    def weights(self) -> Array:
        """The probability of each hypothesis."""
        return self._values()[0]

    @property
    def nothing(self) -> float:
        """The probability that nothing makes a difference."""
        return self._values()[1]

    @property
    def rates(self) -> Rates:
        """The expected rates, by the likeliest hypothesis."""
        best = int(self.weights.argmax())
        bad, bad_shown = int(self._bad[best]), int(self._bad_shown[best])
        terms = _terms(bad_shown, bad, self.shown - bad_shown, self.starts - bad)
        mass = np.exp(terms - terms.max())
        mass /= mass.sum()
        return Rates(good=float(mass @ _Q_OF), bad=float(mass @ _R_OF))

    def information(self, shares: Array) -> Array:
        """The bits that a start is expected to tell, if it has the fault with this probability."""
        rates = self.rates
        mixed = shares * rates.bad + (1 - shares) * rates.good
        apart = shares * _entropy(rates.bad) + (1 - shares) * _entropy(rates.good)
        made: Array = _entropy(mixed) - apart
        return made


# --- a search: both ends first, then what tells most, until one answer is probable enough ---


class SearchEnd(StrEnum):
    """How a search ended, or `open`."""

    OPEN = "open"
    # One answer is as probable as was asked for.
    FOUND = "found"
    # The ends do not differ, or by less than LEAST_GAP.
    EQUAL = "equal"
    # The starts are used up.
    STARTS = "starts"
    # No further start would tell anything.
    EXHAUSTED = "exhausted"


class SearchAnswer(Struct, frozen=True, kw_only=True):
    """What the hypotheses come to: `names` of the answer, its `probability`, and the points to start for it.

    `proof` are points that must have been started: one with the fault by this answer, others without.
    """

    names: tuple[int, ...]
    probability: float
    proof: tuple[int, ...] = ()


class SearchSpace:
    """The points that can be started, by number, and what each hypothesis says of them.

    `good` and `bad` are the ends. `built` are points whose build is there already: of two that tell about as
    much, such a one comes first. `broken` are those that cannot be built.
    """

    good: int
    bad: int
    prior: Array

    def __init__(self) -> None:
        self.built: set[int] = set()
        self.broken: set[int] = set()

    def faulty(self, point: int) -> Flags:
        """By which hypotheses the fault is in what is started there."""
        raise NotImplementedError

    def points(self, posterior: Posterior) -> tuple[Sequence[int], Array]:
        """Points worth a start, and the probability that each has the fault."""
        raise NotImplementedError

    def answers(self, posterior: Posterior) -> list[SearchAnswer]:
        """The likeliest answers, the best first."""
        raise NotImplementedError

    def appeal(self, points: Sequence[int]) -> Array:
        """A factor for each point: less than 1 if it may be impossible to build."""
        return np.ones(len(points))


# Starts of each end, before anything else: they show what the baseline repeats, too.
ENDS = 3
# No more than so many starts go to the ends, both together.
_MOST_ENDS = 24
_SURE_OF_ENDS = 0.95
# So often each point that proves the answer is started.
_PROOF = 2
# By the starts right beside each other, a difference must be so much likelier than none.
_ODDS = 5.0
# What a build is worth: of two points that tell so much alike, the one that is built.
_ALIKE = 0.95
_LEAST_BITS = 1e-4


class SearchStep(Struct, frozen=True, kw_only=True):
    """What to do: start at `point`, or nothing more, and why."""

    end: SearchEnd = SearchEnd.OPEN
    point: int | None = None


class NoisySearch:
    """A search under way: `next_point`, then `add` or `skip`, until `end` is no longer open.

    A new one forgets what an earlier search has noted in the space.
    """

    def __init__(self, space: SearchSpace, *, confidence: float, most: int) -> None:
        space.built, space.broken = set(), set()
        self.space = space
        self.posterior = Posterior(space.prior)
        self.confidence = confidence
        self.most = most
        self.results: list[tuple[int, bool]] = []
        self._ends_differ = False

    def add(self, point: int, *, shown: bool) -> None:
        """A start at this point has ended, and shows the fault or not."""
        self.results.append((point, shown))
        self.space.built.add(point)
        self.posterior.add(self.space.faulty(point), shown=shown)

    def skip(self, point: int) -> None:
        """Nothing can be started at this point."""
        self.space.broken.add(point)

    def counts(self, point: int) -> tuple[int, int]:
        """How many starts were made there, and how many of them show the fault."""
        shown = [is_shown for at, is_shown in self.results if at == point]
        return len(shown), sum(shown)

    @property
    def best(self) -> SearchAnswer:
        """The likeliest answer."""
        return self.space.answers(self.posterior)[0]

    @property
    def end(self) -> SearchEnd:
        """How it has ended."""
        return self.step().end

    def next_points(self, count: int) -> list[int]:
        """Points to start at once; fewer if the search may end before. Outcomes on the way are drawn as expected."""
        ahead = self._copy()
        points: list[int] = []
        while len(points) < min(count, self.most - len(self.results)):
            point = ahead.next_point()
            if point is None:
                break
            points.append(point)
            share = float(ahead.posterior.weights @ self.space.faulty(point))
            ahead.results.append((point, share > 1 / 2))
            ahead.posterior.add(self.space.faulty(point), shown=share > 1 / 2)
        return points

    def next_point(self) -> int | None:
        """Where to start next; None if the search has ended."""
        return self.step().point

    def _copy(self) -> "NoisySearch":
        other = object.__new__(NoisySearch)
        other.__dict__.update(self.__dict__)
        other.posterior, other.results = self.posterior.copy(), list(self.results)
        return other

    @property
    def _is_over(self) -> bool:
        return len(self.results) >= self.most

    def step(self) -> SearchStep:
        """How it has ended, or where to start next."""
        return self._of_ends() or self._of_answer() or self._most_telling()

    def _of_ends(self) -> SearchStep | None:
        """Both ends come first, until it is known whether they differ."""
        at_good, at_bad = (self.counts(end)[0] for end in (self.space.good, self.space.bad))
        more = SearchStep(point=self.space.bad if at_bad < at_good else self.space.good)
        if min(at_good, at_bad) < ENDS:
            return SearchStep(end=SearchEnd.STARTS) if self._is_over else more
        nothing = self.posterior.nothing
        if nothing >= _SURE_OF_ENDS:
            return SearchStep(end=SearchEnd.EQUAL)
        self._ends_differ = self._ends_differ or nothing <= 1 - _SURE_OF_ENDS
        if not self._ends_differ:
            is_enough = self._is_over or at_good + at_bad >= _MOST_ENDS
            return SearchStep(end=SearchEnd.STARTS) if is_enough else more
        best = self.best.probability
        # If only this stands against an answer: that the ends may not differ.
        is_in_the_way = best < self.confidence <= best / (1 - nothing)
        return more if is_in_the_way and not self._is_over else None

    def _of_answer(self) -> SearchStep | None:
        best = self.best
        if best.probability >= self.confidence:
            point = self._unproven(best)
            if point is None:
                return SearchStep(end=SearchEnd.FOUND)
            if not self._is_over:
                return SearchStep(point=point)
        return SearchStep(end=SearchEnd.STARTS) if self._is_over else None

    def _unproven(self, answer: SearchAnswer) -> int | None:
        """Where to start next, if the starts right beside each other do not show the answer by themselves."""
        usable = [point for point in answer.proof if point not in self.space.broken]
        counts = {point: self.counts(point) for point in usable}
        least = [point for point in usable if counts[point][0] < _PROOF]
        if least:
            return least[0]
        inside, *outside = answer.proof
        if inside in self.space.broken or not set(outside) & set(usable):
            return None
        starts = sum(counts[each][0] for each in usable if each != inside)
        shown = sum(counts[each][1] for each in usable if each != inside)
        total, total_shown = counts[inside]
        apart = _likelihood(total_shown, total, shown, starts)
        alike = _likelihood_of_nothing(shown + total_shown, starts + total)
        if apart - alike >= math.log(_ODDS):
            return None
        return min(usable, key=lambda point: counts[point][0])

    def _most_telling(self) -> SearchStep:
        points, shares = self.space.points(self.posterior)
        if not len(points):
            return SearchStep(end=SearchEnd.EXHAUSTED)
        bits = self.posterior.information(shares)
        worth = bits * self.space.appeal(points)
        best = int(worth.argmax())
        if bits[best] < _LEAST_BITS:
            return SearchStep(end=SearchEnd.EXHAUSTED)
        ready = [at for at, point in enumerate(points) if point in self.space.built]
        near = [at for at in ready if worth[at] >= _ALIKE * worth[best]]
        chosen = max(near, key=lambda at: float(worth[at]), default=best)
        return SearchStep(point=points[chosen])
