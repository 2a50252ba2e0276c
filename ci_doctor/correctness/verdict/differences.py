# SPDX-License-Identifier: Apache-2.0
"""How the arms differ over all requests, and whether the environment explains it. Pure.

The baseline differs from itself, so an answer that differs proves nothing yet. It is licensed if
the baseline gives it too, and if the candidate still gives what the baseline gives. Archived starts
license by their builds: starts of one build share its machine, its caches and its faults. A build
with several starts counts with the share of them that gave the answer: otherwise a rare mode would
look frequent only because each build had many chances to show it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

from ci_doctor.correctness.settings import Arm, Rules, StartOrder
from ci_doctor.correctness.verdict.compare import counted
from ci_doctor.correctness.verdict.looks import plan_of, planned_looks
from ci_doctor.correctness.verdict.mix_test import (
    MISSING,
    Labels,
    Pattern,
    Patterns,
    mix_test,
    own_p,
    patterns,
    traits,
)
from ci_doctor.correctness.verdict.starts import ArmStart, failures, of_arm, replaces_baseline
from ci_doctor.model import binomial

# One bad build excuses nothing.
FEWEST_BUILDS = 2

# A candidate that shows an answer more often than this makes likely has a rate of its own.
_ALPHA = 0.05

# From six builds on one of them may have had another mode of the environment.
MANY_BUILDS = 6

_MOST_OF_MANY = Fraction(5, 6)


def licensed(builds_with: int, builds: int, starts_with: int, starts: int) -> bool:
    """Whether an answer of `builds_with` of `builds` archived builds licenses the candidate's.

    The candidate gave it in `starts_with` of `starts` starts. It is licensed if at least two
    independent builds gave it, and the candidate's share is no higher than their rate makes likely:
    Fisher's exact test, one-sided (Fisher 1935, The Design of Experiments, 21), gives p > 0.05.
    """
    if builds_with < FEWEST_BUILDS:
        return False
    return excess_p(builds_with, builds, starts_with, starts) > _ALPHA


def excess_p(builds_with: int, builds: int, starts_with: int, starts: int) -> float:
    """The chance of at least `starts_with` of `starts`, if builds and starts share one rate.

    The upper tail of the hypergeometric distribution, given the number of all that show the answer.
    """
    showing, total = builds_with + starts_with, builds + starts
    ways = sum(
        math.comb(showing, count) * math.comb(total - showing, starts - count)
        for count in range(starts_with, min(showing, starts) + 1)
    )
    return ways / math.comb(total, starts)


def agrees_by_share(agreeing: int, builds: int) -> bool:
    """Whether an answer of `agreeing` of `builds` is the archive's usual one.

    It is that of all builds, or of 5/6 of six and more. True without any, which then say nothing.
    """
    if builds < MANY_BUILDS:
        return agreeing == builds
    return Fraction(agreeing, builds) >= _MOST_OF_MANY


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
    with_answer = sum(
        (
            Fraction(sum(pattern[place] == answer for place in build), len(build))
            for build in places.builds
        ),
        Fraction(0),
    )
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
    agreeing = sum(all(pattern[place] == answer for place in build) for build in places.builds)
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
    return sum(
        len(requests)
        for pattern, requests in by_pattern.items()
        if len({pattern[place] for place in places}) > 1
    )


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


# What chance makes more often than this is no sign of a change. More is asked where the baseline
# itself hardly varies; three starts of an arm never show enough there.
USUAL_P = 0.1

USUAL_P_QUIET = 0.25

# The share of an arm's starts with an answer to a request that no other start of the arm gives, from
# which on the arm is no measure for that request; and the same once no further start comes.
_FRESH = 0.75

_FRESH_AT_THE_END = 0.5

# No probability exceeds it.
_NEVER = 1.0


class Differences(Struct, frozen=True, kw_only=True):
    """The differences of the arms.

    On the requests `disputed` no candidate start shares an answer with a baseline start. On `own`
    requests the candidate gave an answer that no baseline start gave; chance alone makes that many
    in the share `own_p`. On `varied` requests the baseline differs from itself, and on `lost` the
    candidate does not keep what the baseline gives. `is_licensed`: the environment explains all of
    it. `never_repeat`: on no disputed request an arm gave an answer twice; `rarely_repeat`: on each
    of them most starts of either arm give an answer that no other start of the arm gives. On the
    requests `mended` the baseline differs from itself, and the candidate never does.
    `stays_unlicensed`: no baseline start is left that could show what the candidate alone shows, and
    no noise explains it.
    """

    disputed: tuple[str, ...] = ()
    own: int = 0
    own_p: float = 1.0
    varied: int = 0
    lost: int = 0
    is_licensed: bool = False
    never_repeat: bool = False
    rarely_repeat: bool = False
    mended: tuple[str, ...] = ()
    stays_unlicensed: bool = False


def places_of(starts: Sequence[ArmStart], rules: Rules) -> Places:
    """Where in `starts`, and so in their patterns, the starts of each kind are."""
    builds: dict[str | None, list[int]] = {}
    baseline = []
    candidate = []
    for place, start in enumerate(starts):
        if start.archived:
            builds.setdefault(start.build, []).append(place)
        elif start.arm is Arm.BASELINE:
            baseline.append(place)
        else:
            candidate.append(place)
    return Places(
        baseline=tuple(baseline),
        candidate=tuple(candidate),
        builds=tuple(tuple(each) for each in builds.values()),
        first=rules.least_baselines,
    )


def differences_of(
    starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules, *, complete: bool
) -> Differences:
    """The differences over the starts that count. Both arms have such starts."""
    usable = counted(starts)
    by_pattern = patterns(usable, requests)
    places = places_of(usable, rules)
    disputed = tuple(_disputed(by_pattern, places))
    varied = _varied(by_pattern, places.all_baseline)
    own = _own(by_pattern, places)
    chance = 1.0
    is_licensed = not failures(of_arm(usable, Arm.CANDIDATE))
    is_licensed = is_licensed and are_licensed(by_pattern, places)
    may_be_noise = _is_look(starts, rules, complete=complete) and _dies_no_more(usable)
    if (
        not is_licensed
        and may_be_noise
        and is_noise(by_pattern, places)
        and is_steady_noise(by_pattern, places)
    ):
        chance = _chance(usable, requests)
        is_licensed = chance > _usual_p(usable, rules, is_noisy=2 * varied >= own)
    is_end = _is_end(starts, rules, complete=complete)
    fresh = _FRESH_AT_THE_END if complete else _FRESH
    return Differences(
        disputed=disputed,
        own=own,
        own_p=chance,
        varied=varied,
        lost=_lost(by_pattern, places),
        is_licensed=is_licensed,
        never_repeat=is_end and _repeat_at_most(by_pattern, places, fresh=1.0),
        rarely_repeat=is_end and _repeat_at_most(by_pattern, places, fresh=fresh),
        mended=tuple(mended(by_pattern, places)),
        stays_unlicensed=_is_without_baseline(starts, rules)
        and not is_steady_noise(by_pattern, places),
    )


def _is_without_baseline(starts: Sequence[ArmStart], rules: Rules) -> bool:
    """Whether every baseline start of the plan was made."""
    if rules.order is not StartOrder.DRAWN:
        return False
    planned = sum(block.baseline for block in plan_of(starts, rules))
    return sum(not start.archived for start in of_arm(starts, Arm.BASELINE)) >= planned


def _dies_no_more(usable: Sequence[ArmStart]) -> bool:
    """Whether the candidate's starts fail in no larger a share than today's baseline starts do.

    A death is no flake of a baseline that does not die.
    """
    today = [start for start in usable if not start.archived]
    baseline = of_arm(today, Arm.BASELINE)
    candidate = of_arm(today, Arm.CANDIDATE)
    return failures(candidate) * len(baseline) <= failures(baseline) * len(candidate)


def _usual_p(usable: Sequence[ArmStart], rules: Rules, *, is_noisy: bool) -> float:
    """What the chance of these differences must exceed to be no sign of a change.

    `is_noisy`: the baseline varies on at least half as many requests as the candidate has answers
    of its own on.
    """
    is_first = _fewest([start.arm for start in usable]) <= _first_look(rules)
    if is_first and not is_noisy:
        return _NEVER
    return USUAL_P if is_noisy and not is_first else USUAL_P_QUIET


def _is_look(starts: Sequence[ArmStart], rules: Rules, *, complete: bool) -> bool:
    """Whether it is time to ask if chance explains the differences: at fixed numbers of starts.

    The first time is when both arms have the starts of the first look, the others are the ends of
    the blocks, and the end of all.
    """
    if not complete and rules.order is StartOrder.DRAWN:
        arms = [start.arm for start in starts if not start.archived]
        if _fewest(arms) >= _first_look(rules) > _fewest(arms[:-1]):
            return True
    return _is_end(starts, rules, complete=complete)


def _is_end(starts: Sequence[ArmStart], rules: Rules, *, complete: bool) -> bool:
    """Whether a block has ended, or everything."""
    if complete or rules.order is not StartOrder.DRAWN:
        return complete
    made = sum(not start.archived for start in starts)
    return made in planned_looks(rules, archived=replaces_baseline(starts, rules))


def _first_look(rules: Rules) -> int:
    """The starts of each arm at the first look."""
    return max(rules.retries, FEWEST_FOR_NOISE)


def _fewest(arms: Sequence[Arm]) -> int:
    made = Counter(arms)
    return min(made[arm] for arm in Arm)


def _disputed(by_pattern: Patterns, places: Places) -> list[str]:
    return [
        request
        for pattern, requests in by_pattern.items()
        if _is_disputed(pattern, places)
        for request in requests
    ]


def _is_disputed(pattern: Pattern, places: Places) -> bool:
    """Whether the arms share no answer. A missing answer is shared with none."""
    baseline = {pattern[place] for place in places.all_baseline} - {MISSING}
    candidate = {pattern[place] for place in places.candidate} - {MISSING}
    return baseline.isdisjoint(candidate)


def _own(by_pattern: Patterns, places: Places) -> int:
    total = 0
    for pattern, requests in by_pattern.items():
        baseline = {pattern[place] for place in places.all_baseline}
        if any(pattern[place] not in baseline for place in places.candidate):
            total += len(requests)
    return total


def _lost(by_pattern: Patterns, places: Places) -> int:
    return sum(len(each) for pattern, each in by_pattern.items() if not is_kept(pattern, places))


def _repeat_at_most(by_pattern: Patterns, places: Places, *, fresh: float) -> bool:
    """Whether there are disputed requests, and on each most answers of either arm come only once.

    `fresh` is the least share of an arm's starts whose answer no other start of the arm gives.
    """
    if min(len(places.all_baseline), len(places.candidate)) < FEWEST_FOR_NOISE:
        return False
    # Where the baseline is steady, a candidate that varies is no fault of the environment.
    if not is_steady_noise(by_pattern, places):
        return False
    disputed = [each for each in by_pattern if _is_disputed(each, places)]
    arms = (places.all_baseline, places.candidate)
    is_fresh = all(_fresh_share(each, of_arm) >= fresh for each in disputed for of_arm in arms)
    return bool(disputed) and is_fresh


def _fresh_share(pattern: Pattern, places: Sequence[int]) -> float:
    """The share of these starts whose answer none of the others gives."""
    times = Counter(pattern[place] for place in places)
    return sum(times[each] == 1 for each in times if each != MISSING) / len(places)


def _chance(usable: Sequence[ArmStart], requests: Sequence[str]) -> float:
    """How often chance alone makes what today's candidate starts show.

    The smallest of three p-values: of the answers that the candidate alone gave, of the largest
    difference on one request, and of the starts that failed. Over all labelings, whatever the
    blocks: it can only end a run green, and within small blocks hardly anything is improbable.
    """
    today = [start for start in usable if not start.archived]
    labels = Labels(
        candidate=tuple(start.arm is Arm.CANDIDATE for start in today), block=(0,) * len(today)
    )
    given = traits(patterns(today, requests), [start.failed for start in today])
    if not given.columns:
        return 1.0
    return min(own_p(given, labels), mix_test(given, labels).p, _failures_p(today))


def _failures_p(today: Sequence[ArmStart]) -> float:
    """The p-value of the candidate's starts that failed (Fisher 1935, one-sided)."""
    baseline = of_arm(today, Arm.BASELINE)
    candidate = of_arm(today, Arm.CANDIDATE)
    return excess_p(failures(baseline), len(baseline), failures(candidate), len(candidate))
