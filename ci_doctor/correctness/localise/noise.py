# SPDX-License-Identifier: Apache-2.0
"""Which of many hypotheses explains noisy starts, where no rate is known. Pure.

Each start shows a fault or does not. A hypothesis says of each start whether the fault is in it. A start
with the fault shows it at some rate r, one without it at some rate q, at most r. If both are the same,
nothing makes a difference.

Hypotheses and rates have a joint posterior, with one of two priors of the rates. Where to start next is chosen by
what is usual. What is stated rests on a cautious prior: near rates are likelier than distant ones, so a few lucky
starts are not taken for distant rates. Both pairs of rates and hypotheses are on grids, so all sums are exact.
A probability with a prior of rates is not true at each pair of rates by itself: `benchmarks/searching.py` measures
that it is true or too low. It assumes that starts are independent, and that one of the hypotheses is true.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from enum import StrEnum

import numpy as np
from msgspec import Struct

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Places = np.ndarray[tuple[int, ...], np.dtype[np.intp]]

_RATES = np.array(
    (0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1)
)  # fmt: skip
# Of pairs, a row for each rate of starts without the fault, a column for each rate of those with it.
_GAP = _RATES - _RATES[:, None]
_APART = np.greater(_GAP, 0)
# In place of the logarithm of 0: a number that 0 can be multiplied with.
_LEAST = 1e-300
_LOG, _LOG_NOT = (np.log(np.maximum(each, _LEAST)) for each in (_RATES, 1 - _RATES))
_WIDTH: Array = np.gradient(_RATES)
# Pairs of rates by which the starts are so much less likely than by the best ones are ruled out; that nothing
# makes a difference, only by more.
_RULED_OUT, _NOTHING_RULED_OUT = 20.0, 200.0
# The prior that nothing makes a difference, where the ends were started already.
_NOTHING = 0.02
# Rates nearer than that are as likely as these.
_NEAR = 0.05


def _usual() -> Array:
    """The prior of each pair by which starts are chosen: flakes are rare, mostly, and faults show.

    The masses at 0 and at 1 are for what is deterministic.
    """
    below, above = _WIDTH * (1 - _RATES) ** 8, _WIDTH * _RATES**3 * np.sqrt(1 - _RATES)
    below, above = 0.95 * below / below.sum(), 0.95 * above / above.sum()
    below[0] += 0.05
    above[-1] += 0.05
    return np.where(_APART, below[:, None] * above, 0)


def _cautious() -> Array:
    """The prior of each pair for what is stated: it falls with the square of the gap."""
    pairs = _WIDTH[:, None] * _WIDTH / np.maximum(_GAP, _NEAR) ** 2
    apart = np.where(_APART, pairs, 0)
    made: Array = (1 - _NOTHING) * apart / apart.sum()
    return made


_USUAL, _CAUTIOUS = _usual(), _cautious()
_OF_NOTHING = _NOTHING * _WIDTH / _WIDTH.sum()


def _likelihoods(starts: Array | Places, shown: Array | Places) -> tuple[Array, Array]:
    """A row for each pair of counts, a column for each rate: how likely, beside the likeliest rate; and its logarithm."""
    logs = np.multiply.outer(shown, _LOG) + np.multiply.outer(starts - shown, _LOG_NOT)
    most = logs.max(axis=-1, keepdims=True)
    return np.exp(logs - most), most[..., 0]


def odds_of_difference(good: tuple[int, int], bad: tuple[int, int], gap: float = 0.0) -> float:
    """How much likelier the best rates so far apart make some starts than one rate of all does.

    `good` and `bad` are how many starts there are without and with the fault, and how many of them show it.
    """
    pairs = np.multiply.outer(*(_likelihoods(*map(np.asarray, each))[0] for each in (good, bad)))
    apart = pairs[np.greater_equal(_GAP, gap - 1e-9)].max()
    return float(apart / max(pairs.diagonal().max(), _LEAST))


def _entropy(share: Array) -> Array:
    clipped = np.clip(share, 1e-12, 1 - 1e-12)
    made: Array = -(clipped * np.log2(clipped) + (1 - clipped) * np.log2(1 - clipped))
    return made


class Rates(Struct, frozen=True):
    """The rates that are not ruled out: how often starts show the fault that do not have it, and that have it."""

    good: tuple[float, float]
    bad: tuple[float, float]


class _Made(Struct, frozen=True):
    """What the starts come to. A kind are the hypotheses by which the starts are alike likely.

    `weights` of the hypotheses are by the usual rates, as are `good` and `bad`: of each kind the expected rates.
    `stated` are the probabilities by the cautious ones. `marginal` says how likely each pair of rates makes the starts.
    """

    kind: Places
    weights: Array
    good: Array
    bad: Array
    stated: Array
    marginal: Array


class Posterior:
    """Hypotheses by number, and what the starts so far make of them. `prior` needs no sum of 1."""

    def __init__(self, prior: Sequence[float] | Array) -> None:
        weights = np.asarray(prior, dtype=np.float64)
        self._prior = weights / weights.sum()
        # Of each hypothesis: the starts that have the fault by it, and those of them that show it.
        self._bad = np.zeros(len(weights), dtype=np.int64)
        self._bad_shown = np.zeros(len(weights), dtype=np.int64)
        self.starts = 0
        self.shown = 0
        self._made: _Made | None = None

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

    def _computed(self) -> _Made:
        if self._made is not None:
            return self._made
        every = self._bad * (self.starts + 1) + self._bad_shown
        codes = np.flatnonzero(np.bincount(every))
        kind = np.searchsorted(codes, every)
        bad, bad_shown = np.divmod(codes, self.starts + 1)
        with_fault, scale = _likelihoods(bad, bad_shown)
        without, other_scale = _likelihoods(self.starts - bad, self.shown - bad_shown)
        scale = np.exp(scale + other_scale - (scale + other_scale).max())
        usual = (without @ _USUAL) * with_fault
        per_kind = np.maximum(usual.sum(axis=1), _LEAST)
        weights = self._prior * (scale * per_kind)[kind]
        mass = scale * np.bincount(kind, weights=self._prior)
        marginal = np.where(_GAP >= 0, (without * mass[:, None]).T @ with_fault, 0)
        cautious = scale * ((without @ _CAUTIOUS) * with_fault).sum(axis=1)
        stated = self._prior * cautious[kind]
        of_nothing = float(marginal.diagonal() @ _OF_NOTHING)
        self._made = _Made(
            kind=kind,
            weights=weights / weights.sum(),
            good=((without * _RATES @ _USUAL) * with_fault).sum(axis=1) / per_kind,
            bad=usual @ _RATES / per_kind,
            stated=stated / (stated.sum() + of_nothing),
            marginal=marginal,
        )
        return self._made

    @property
    def weights(self) -> Array:
        """The probability of each hypothesis by the usual rates: to choose by, and not to state."""
        return self._computed().weights

    def probability(self, hypotheses: Sequence[int]) -> float:
        """The probability that one of these is true, by the cautious rates.

        It is 0 as long as it is not ruled out that nothing makes a difference.
        """
        made = self._computed()
        if made.marginal.diagonal().max() * _NOTHING_RULED_OUT >= made.marginal.max():
            return 0.0
        return min(1.0, float(made.stated[list(hypotheses)].sum()))

    @property
    def rates(self) -> Rates:
        """The rates that are not ruled out."""
        marginal = self._computed().marginal
        kept = marginal * _RULED_OUT >= marginal.max()
        good, bad = (_RATES[kept.any(axis=axis)] for axis in (1, 0))
        return Rates(
            good=(float(good.min()), float(good.max())), bad=(float(bad.min()), float(bad.max()))
        )

    def information(self, likely: Places, faulty: Flags) -> Array:
        """The bits that a start at each point is expected to tell of the hypotheses.

        `faulty` has a row for each point and a column for each of the `likely` hypotheses.
        """
        made = self._computed()
        kind, weights = made.kind[likely], made.weights[likely]
        weights = weights / weights.sum()
        good, bad = made.good[kind], made.bad[kind]
        flags = faulty.astype(np.float32)
        shown = flags @ (weights * (bad - good)).astype(np.float32) + weights @ good
        low, high = weights * _entropy(good), weights * _entropy(bad)
        bits: Array = _entropy(shown) - flags @ (high - low).astype(np.float32) - low.sum()
        return bits


# --- a search: both ends first, then what tells most, until one answer is probable enough ---


class SearchEnd(StrEnum):
    """How a search ended, or `open`."""

    OPEN = "open"
    # One answer is as probable as was asked for.
    FOUND = "found"
    # The ends do not differ, or by less than LEAST_GAP.
    EQUAL = "equal"
    # Half of the starts were made at the ends, and it is not sure that these differ.
    UNSURE = "unsure"
    # The starts are used up.
    STARTS = "starts"
    # No further start would tell anything.
    EXHAUSTED = "exhausted"


class SearchAnswer(Struct, frozen=True, kw_only=True):
    """What the hypotheses come to: `names` of the answer, its `probability`, and the points to start for it.

    `weight` is its probability by the usual rates. `proof` are points that must have been started: the first with the
    fault by this answer, the others without.
    """

    names: tuple[int, ...]
    probability: float
    weight: float
    proof: tuple[int, ...] = ()


class SearchSpace(ABC):
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

    @abstractmethod
    def faulty(self, point: int) -> Flags:
        """By which hypotheses the fault is in what is started there."""

    @abstractmethod
    def points(self, posterior: Posterior) -> tuple[Sequence[int], Places, Flags]:
        """Points worth a start, the likely hypotheses, and by which of these the fault is at each point."""

    @abstractmethod
    def answers(self, posterior: Posterior) -> list[SearchAnswer]:
        """The likeliest answers, the best first."""

    def appeal(self, points: Sequence[int]) -> Array:
        """A factor for each point: less than 1 if it may be impossible to build."""
        return np.ones(len(points))


# Starts of each end, before anything else: they show what the baseline repeats, too.
ENDS = 3
# More of them are made first, until by their starts alone the best rates are so much likelier than one rate, or less
# than that in this share of all starts, ...
_ODDS_OF_ENDS = 20.0
_ODDS_AT_FIRST, _SHARE_AT_FIRST = 3.0, 0.25
# ... or rates so far apart are so much less likely than one rate, or this share of all starts is used up.
LEAST_GAP, _ODDS_OF_NOTHING = 0.3, 20.0
_SHARE_OF_ENDS = 0.5
# So often each point that proves the answer is started, and by their starts alone the best rates are so much likelier.
_PROOF, _ODDS_OF_PROOF = 2, 20.0
# An answer with such a weight is tried by its proof alone.
_LIKELY = 0.9
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

    def add(self, point: int, *, shown: bool) -> None:
        """A start at this point has ended, and shows the fault or not."""
        self.space.built.add(point)
        self.take(point, shown=shown)

    def take(self, point: int, *, shown: bool) -> None:
        """As `add`, of a start that is only imagined: nothing is built there."""
        self.results.append((point, shown))
        self.posterior.add(self.space.faulty(point), shown=shown)

    def skip(self, point: int) -> None:
        """Nothing can be started at this point."""
        self.space.broken.add(point)

    def counts(self, *points: int) -> tuple[int, int]:
        """How many starts were made at these points, and how many of them show the fault."""
        shown = [is_shown for at, is_shown in self.results if at in points]
        return len(shown), sum(shown)

    def _odds(self, bad: int, good: Iterable[int], gap: float = 0.0) -> float:
        """How much likelier it is that starts at these points alone have two rates than that they have one."""
        return odds_of_difference(self.counts(*good), self.counts(bad), gap)

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
            ahead.take(point, shown=share > 1 / 2)
        return points

    def next_point(self) -> int | None:
        """Where to start next; None if the search has ended."""
        return self.step().point

    def _copy(self) -> "NoisySearch":
        other = object.__new__(NoisySearch)
        other.__dict__.update(self.__dict__)
        other.posterior = self.posterior.copy()
        other.results = list(self.results)
        return other

    @property
    def _is_over(self) -> bool:
        return len(self.results) >= self.most

    def step(self) -> SearchStep:
        """How it has ended, or where to start next."""
        return self._of_ends() or self._of_answer() or self._most_telling()

    def _of_ends(self) -> SearchStep | None:
        """Both ends come first, until it is likely that they differ."""
        good, bad = self.space.good, self.space.bad
        if min(self.counts(end)[0] for end in (good, bad)) >= ENDS:
            made, odds = self.counts(good, bad)[0], self._odds(bad, [good])
            is_likely = odds >= _ODDS_AT_FIRST and made >= _SHARE_AT_FIRST * self.most
            if made < len(self.results) or odds >= _ODDS_OF_ENDS or is_likely:
                return None
            if self._odds(bad, [good], LEAST_GAP) <= 1 / _ODDS_OF_NOTHING:
                return SearchStep(end=SearchEnd.EQUAL)
            if made >= _SHARE_OF_ENDS * self.most:
                return SearchStep(end=SearchEnd.UNSURE)
        return SearchStep(end=SearchEnd.STARTS) if self._is_over else self._at_end()

    def _at_end(self) -> SearchStep:
        return SearchStep(
            point=min((self.space.good, self.space.bad), key=lambda end: self.counts(end)[0])
        )

    def _of_answer(self) -> SearchStep | None:
        best, broken = self.best, self.space.broken
        bad, *good = best.proof
        usable = [each for each in best.proof if each not in broken]
        least = min(usable, key=lambda point: self.counts(point)[0], default=None)
        is_pair = bad not in broken and any(each not in broken for each in good)
        is_proven = least is None or (
            self.counts(least)[0] >= _PROOF
            and (not is_pair or self._odds(bad, good) >= _ODDS_OF_PROOF)
        )
        is_enough = best.probability >= self.confidence
        ends_differ = self._odds(self.space.bad, [self.space.good]) >= _ODDS_AT_FIRST
        if is_enough and is_proven and ends_differ:
            return SearchStep(end=SearchEnd.FOUND)
        if self._is_over:
            return SearchStep(end=SearchEnd.STARTS)
        if is_enough and is_proven:
            return self._at_end()
        is_likely = is_enough or best.weight >= _LIKELY
        return SearchStep(point=least) if is_likely and least is not None else None

    def _most_telling(self) -> SearchStep:
        points, likely, faulty = self.space.points(self.posterior)
        if not len(points):
            return SearchStep(end=SearchEnd.EXHAUSTED)
        bits = self.posterior.information(likely, faulty)
        worth = bits * self.space.appeal(points)
        best = int(worth.argmax())
        if bits[best] < _LEAST_BITS:
            return SearchStep(end=SearchEnd.EXHAUSTED)
        ready = [at for at, point in enumerate(points) if point in self.space.built]
        near = [at for at in ready if worth[at] >= _ALIKE * worth[best]]
        chosen = max(near, key=lambda at: float(worth[at]), default=best)
        return SearchStep(point=points[chosen])
