# SPDX-License-Identifier: Apache-2.0
"""How the arms differ over all requests, and whether the environment explains it. Pure."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.correctness.settings import Arm, Rules, StartOrder
from ci_doctor.correctness.verdict.archive_licence import excess_p, replaces_baseline
from ci_doctor.correctness.verdict.compare import ArmStart, counted, failures, of_arm
from ci_doctor.correctness.verdict.labelings import Labels
from ci_doctor.correctness.verdict.licence import (
    FEWEST_FOR_NOISE,
    Places,
    are_licensed,
    is_kept,
    is_noise,
    is_steady_noise,
    mended,
)
from ci_doctor.correctness.verdict.looks import plan_of, planned_looks
from ci_doctor.correctness.verdict.mix_test import mix_test, own_p
from ci_doctor.correctness.verdict.patterns import MISSING, Pattern, Patterns, patterns
from ci_doctor.correctness.verdict.traits import traits

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
    varied = _varied(by_pattern, places)
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
    disputed: list[str] = []
    for pattern, requests in by_pattern.items():
        if _is_disputed(pattern, places):
            disputed.extend(requests)
    return disputed


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


def _varied(by_pattern: Patterns, places: Places) -> int:
    total = 0
    for pattern, requests in by_pattern.items():
        if len({pattern[place] for place in places.all_baseline}) > 1:
            total += len(requests)
    return total


def _lost(by_pattern: Patterns, places: Places) -> int:
    total = 0
    for pattern, requests in by_pattern.items():
        if not is_kept(pattern, places):
            total += len(requests)
    return total


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
    for each in disputed:
        if any(_fresh_share(each, places_of_arm) < fresh for places_of_arm in arms):
            return False
    return bool(disputed)


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
