# SPDX-License-Identifier: Apache-2.0
"""What the rates show where no cause fits each answer: at once with others alone, or at random, and of which requests. Pure.

Each part is said only if chance is excluded, by Fisher's exact test of one side: all that differ lie
on this side, and none of so many equal ones on the other.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

from ci_doctor.correctness.localise.causes import fitting
from ci_doctor.correctness.localise.traits import SendTable, targets
from ci_doctor.correctness.localise.trials import LocalisedDifference, TrialSend
from ci_doctor.load.requests import Request

# Of sends, and of requests.
_LEVEL = 0.01
# There are few starts.
_LEVEL_OF_STARTS = 0.05
# So many kinds of requests beside the first are named if the rates do not part them.
_MOST_OTHERS = 1


def by_rate(
    lanes: Sequence[Sequence[TrialSend]],
    subject: LocalisedDifference,
    requests: Mapping[str, Request],
) -> str:
    """A sentence on the sends of all starts, empty if chance may have made what they show."""
    sends = [each for lane in lanes for each in lane if each.wrong is not None]
    least = min((each.at_once for each in sends if each.wrong), default=0)
    said = _at_once(lanes, subject, least) if least > 1 else _at_random(lanes, requests)
    if not said:
        return ""
    alike = [e for e in sends if (e.at_once >= least if least > 1 else e.at_once == 1)]
    kinds = _kinds(alike, subject, requests)
    return f"{said}{', and only ' * bool(kinds)}{kinds}"


def _chance(differing: int, of: int, equal: int) -> float:
    """How often all that differ are among the first `of`, and none among so many `equal`, by chance."""
    return math.comb(of, differing) / math.comb(of + equal, differing)


def _is_excluded(some: Sequence[TrialSend], equal: Sequence[TrialSend]) -> bool:
    """Whether it is no chance that none of `equal` differs: of all requests, and of those that ever did."""
    names = {each.name for each in some if each.wrong}
    for left, right in (
        (some, equal),
        ([e for e in some if e.name in names], [e for e in equal if e.name in names]),
    ):
        if _chance(sum(bool(each.wrong) for each in left), len(left), len(right)) > _LEVEL:
            return False
    return True


def _at_once(lanes: Sequence[Sequence[TrialSend]], subject: LocalisedDifference, least: int) -> str:
    """That requests differ only with so many at once; none differs with fewer than `least`."""
    sends = [e for lane in lanes for e in lane if e.wrong is not None and e.name in subject.ids]
    alone = [each for each in sends if each.at_once == 1]
    if not _is_excluded([e for e in sends if e.at_once >= least], alone):
        return ""
    wrong = {*subject.differing, *(each.name for each in sends if each.wrong)}
    loaded = [lane for lane in lanes if any(each.at_once >= least for each in lane)]
    mixed = any(
        {True, False} <= {e.wrong for e in lane if e.name == name and e.at_once >= least}
        for lane in loaded
        for name in wrong
    )
    # A start may show it or not, whatever it gets: of the run each did, or one start alone shows both.
    run = math.isqrt(subject.pairs) if subject.always_differs else 0
    shown = sum(any(each.wrong for each in lane) for lane in loaded)
    equal = sum(any(e.at_once == 1 and e.name in wrong for e in lane) for lane in lanes)
    starts = _chance(shown + run, len(loaded) + run, equal)
    if not (run or mixed) or starts > _LEVEL_OF_STARTS:
        return ""
    nearest = [each for each in sends if each.at_once == least]
    for size in sorted({e.at_once for e in sends if 1 < e.at_once < least}, reverse=True):
        if _is_excluded(nearest, [e for e in sends if size <= e.at_once < least]):
            return (
                f"requests differed only with {least} or more at once "
                f"({size}: equal; one at a time: equal)"
            )
    return "requests differed only at once with others (one at a time: equal)"


def _at_random(lanes: Sequence[Sequence[TrialSend]], requests: Mapping[str, Request]) -> str:
    """That a request sent again and again differs now and then, by nothing that came before."""
    for lane in sorted(lanes, key=len, reverse=True):
        known = [bool(each.wrong) for each in lane if each.wrong is not None]
        is_of_one = len({(each.name, each.at_once) for each in lane}) == 1 == lane[0].at_once
        if is_of_one and {(True, False), (False, True)} <= set(itertools.pairwise(known)):
            name = lane[0].name
            if not fitting(SendTable([lane], requests, [name], {}), len(lane)):
                return (
                    f"{name} differs in {sum(known)} of {len(known)} sends of the same request: "
                    "at random, or by what no request shows"
                )
    return ""


def _kinds(
    sends: Sequence[TrialSend], subject: LocalisedDifference, requests: Mapping[str, Request]
) -> str:
    """The parameter or path of all requests that differ among these sends, if it is no chance that they have it.

    Of the other kinds that have them all, each is excluded in the same way, or named as well.
    """
    plain = [each for each in sends if each.name in subject.ids]
    names = {each.name for each in plain}
    differing = {each.name for each in plain if each.wrong} | (names & set(subject.differing))
    holders, tried = _holders(sends, subject, requests)
    fit = [(of & names, words) for of, words in holders if differing <= of]
    fit.sort(key=lambda kind: len(kind[0]))
    if not fit or not differing:
        return ""
    (first, words), *rest = fit
    count = len(differing)
    inside = sum(each.name in first for each in plain)
    wrong = sum(bool(each.wrong) for each in plain)
    of_sends = _chance(wrong, inside, len(plain) - inside)
    of_requests = tried * _chance(count, len(first), len(names - first))
    if max(of_sends, of_requests) > _LEVEL:
        return ""
    # Of those that have another kind as well, all that differ may be of the first by chance.
    others = [
        f" (or {words})"
        for of, words in rest
        if math.comb(len(first & of), count) / math.comb(len(of), count) > _LEVEL
    ]
    return words + "".join(others) if len(others) <= _MOST_OTHERS else ""


def _holders(
    sends: Sequence[TrialSend], subject: LocalisedDifference, requests: Mapping[str, Request]
) -> tuple[list[tuple[frozenset[str], str]], int]:
    """The kinds that all wrong sends have, with the requests of each and its words; and how many were tried.

    The kind of the fewest requests comes first. Two kinds of the same requests of the run are one.
    """
    # Behind the sends each request of the run stands once: two kinds may be one of those that were sent.
    every = [*sends, *(TrialSend(name=name, block=0, at_once=1) for name in subject.ids)]
    table = SendTable([every], requests, subject.ids, {})
    holders: dict[int, tuple[frozenset[str], str]] = {}
    tried = set()
    for part in targets(table, ()):
        if not part.is_form:
            continue
        of_run = part.mask >> len(sends)
        tried.add(of_run)
        if not table.wrong & ~part.mask:
            of = frozenset(each.name for at, each in enumerate(sends) if part.mask >> at & 1)
            holders.setdefault(of_run, (of, part.words))
    ordered = sorted(holders.items(), key=lambda each: each[0].bit_count())
    return [kind for _, kind in ordered], len(tried)
