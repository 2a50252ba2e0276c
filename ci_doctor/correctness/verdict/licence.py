# SPDX-License-Identifier: Apache-2.0
"""Which differences the baseline licenses. Pure.

The baseline differs from itself, so an answer that differs proves nothing yet. It is licensed if
the baseline gives it too, and if the candidate still gives what the baseline gives.
"""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

from ci_doctor.correctness.verdict.archive_licence import agrees_by_share, licensed
from ci_doctor.correctness.verdict.patterns import MISSING, Pattern, Patterns
from ci_doctor.model import binomial

# Fewer starts of an arm say nothing about noise.
FEWEST_FOR_NOISE = 3
_MANY = 8
_TWO = 2
# A start with more odd answers than the baseline's starts make so likely is no noise of theirs.
_ODD_START = 0.005
# More often than this, chance alone leaves all flakes of a request to the baseline.
_BY_CHANCE = 0.1


class Places(Struct, frozen=True, kw_only=True):
    """Where in a pattern the starts of each kind are, in order of time.

    `builds` holds the archived starts, build by build. `first` is the number of baseline starts
    that are made before anything can pass.
    """

    baseline: tuple[int, ...]
    candidate: tuple[int, ...]
    builds: tuple[tuple[int, ...], ...] = ()
    first: int = 1

    @property
    def all_baseline(self) -> tuple[int, ...]:
        """Archived and today's baseline starts."""
        return (*(place for build in self.builds for place in build), *self.baseline)


def are_licensed(by_pattern: Patterns, places: Places) -> bool:
    """Whether on every request the candidate gives what the baseline gives, and keeps it."""
    return all(_is_licensed(pattern, places) for pattern in by_pattern)


def _is_licensed(pattern: Pattern, places: Places) -> bool:
    candidate = {pattern[place] for place in places.candidate}
    # A missing answer is licensed by none.
    if MISSING in candidate or not is_kept(pattern, places):
        return False
    today = {pattern[place] for place in places.baseline}
    return all(archive_licenses(pattern, places, answer) for answer in candidate - today)


def archive_licenses(pattern: Pattern, places: Places, answer: int) -> bool:
    """Whether the archived builds license that the candidate gives `answer`, a class of `pattern`.

    A missing answer is never licensed, and makes no other one rarer.
    """
    if answer == MISSING:
        return False
    with_answer = Fraction(0)
    for build in places.builds:
        given = sum(pattern[place] == answer for place in build)
        with_answer += Fraction(given, len(build))
    candidate = _answers(pattern, places.candidate)
    # Rounded down: a part of a build is none.
    builds_with = math.floor(with_answer)
    return licensed(builds_with, len(places.builds), candidate.count(answer), len(candidate))


def is_kept(pattern: Pattern, places: Places) -> bool:
    """Whether the candidate still gives what the baseline gives.

    Either the candidate's first answer is that of the baseline's first starts, and the archive's
    usual one. Or the candidate varies as well, and shares an answer with the baseline. Otherwise a
    change that makes one of the baseline's answers permanent would pass as often as the baseline
    happens to give it.
    """
    candidate = _answers(pattern, places.candidate)
    if not candidate:
        return False
    usual = candidate[0]
    today = _answers(pattern, places.baseline)
    first = today[: places.first]
    is_baselines = all(answer == usual for answer in first)
    if (first or places.builds) and is_baselines and is_usual_in_archive(pattern, places, usual):
        return True
    shared = set(candidate) & set(_answers(pattern, places.all_baseline))
    return bool(shared) and len(set(candidate)) > 1


def is_usual_in_archive(pattern: Pattern, places: Places, answer: int) -> bool:
    """Whether `answer`, a class of `pattern`, is the usual one of the archived builds.

    A build that gave another answer too does not agree.
    """
    agreeing = 0
    for build in places.builds:
        agreeing += all(pattern[place] == answer for place in build)
    return agrees_by_share(agreeing, len(places.builds))


def _answers(pattern: Pattern, places: Sequence[int]) -> list[int]:
    return [pattern[place] for place in places if pattern[place] != MISSING]


def is_noise(by_pattern: Patterns, places: Places) -> bool:
    """Whether every request is kept, or keeps the baseline's usual answer beside noise.

    One odd start of many is noise.
    Noise: the candidate varies on at least half as many requests as the baseline does. Without that
    a baseline answer that the candidate never gives is no noise.
    """
    if min(len(places.baseline), len(places.candidate)) < FEWEST_FOR_NOISE:
        return False
    baseline = _varied(by_pattern, places.baseline)
    candidate = _varied(by_pattern, places.candidate)
    both_vary = 2 * candidate >= baseline
    for pattern in by_pattern:
        if is_kept(pattern, places) or _is_all_but_one(pattern, places):
            continue
        if not both_vary or not _is_usual(pattern, places):
            return False
    return True


def _varied(by_pattern: Patterns, places: Sequence[int]) -> int:
    """On how many requests these starts differ from each other."""
    total = 0
    for pattern, requests in by_pattern.items():
        if len({pattern[place] for place in places}) > 1:
            total += len(requests)
    return total


def _is_usual(pattern: Pattern, places: Places) -> bool:
    """Whether the candidate always gives the answer that most baseline starts give."""
    answers = set(_answers(pattern, places.candidate))
    if len(answers) != 1:
        return False
    given = [pattern[place] for place in places.all_baseline]
    return 2 * given.count(answers.pop()) > len(given)


def _is_all_but_one(pattern: Pattern, places: Places) -> bool:
    """Whether the candidate always gives what all of many baseline starts give but one.

    One start in eight that differs, such as the first on a cold machine, is rare enough.
    """
    answers = set(_answers(pattern, places.candidate))
    given = [pattern[place] for place in places.all_baseline]
    if len(answers) != 1 or len(given) < _MANY:
        return False
    return given.count(answers.pop()) >= len(given) - 1


def is_steady_noise(by_pattern: Patterns, places: Places) -> bool:
    """Whether what the candidate alone gives, where the baseline never varied, is the baseline's noise.

    An answer that comes twice is none, and neither is a start that has many more such answers than
    the baseline's starts have odd ones. The start with the most odd answers is left out of those: one start
    in a mode of its own is no noise. A missing answer counts as one that never repeats.
    """
    odd = sorted(_odd_answers(by_pattern, places.baseline))[:-1]
    own = dict.fromkeys(places.candidate, 0)
    for pattern, requests in by_pattern.items():
        given = {pattern[place] for place in places.all_baseline}
        if len(given) > 1:
            continue
        times = Counter(pattern[place] for place in places.candidate)
        if any(times[each] > 1 for each in times if each not in {*given, MISSING}):
            return False
        for place in places.candidate:
            own[place] += len(requests) * (pattern[place] not in given)
    share = 1 / (len(odd) + 1)
    noise = sum(odd)
    return all(
        not number or (noise and binomial.upper_tail(number, number + noise, share) > _ODD_START)
        for number in own.values()
    )


def _odd_answers(by_pattern: Patterns, places: Sequence[int]) -> list[int]:
    """For each of these starts, on how many requests it alone differs from all the others."""
    odd = dict.fromkeys(places, 0)
    for pattern, requests in by_pattern.items():
        times = Counter(pattern[place] for place in places)
        if len(times) != _TWO:
            continue
        for place in places:
            usual = set(times) - {pattern[place]}
            odd[place] += len(requests) * (times[pattern[place]] == 1 and MISSING not in usual)
    return list(odd.values())


def mended(by_pattern: Patterns, places: Places) -> list[str]:
    """The requests on which the baseline differs from itself, and the candidate hardly by chance never.

    It always gives the answer that the baseline gives most often. Of all choices of the starts that
    give another one, at most a tenth chooses baseline starts alone (Fisher's exact test).
    """
    chosen: list[str] = []
    baseline = len(places.all_baseline)
    total = baseline + len(places.candidate)
    for pattern, requests in by_pattern.items():
        times = Counter(pattern[place] for place in places.all_baseline)
        candidate = {pattern[place] for place in places.candidate}
        if len(candidate) != 1 or MISSING in candidate:
            continue
        usual = times[candidate.pop()]
        others = baseline - usual
        chance = math.comb(baseline, others) / math.comb(total, others)
        if others and usual == max(times.values()) and chance <= _BY_CHANCE:
            chosen.extend(requests)
    return chosen
