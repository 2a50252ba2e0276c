# SPDX-License-Identifier: Apache-2.0
"""Reads an answer to prove the comparison, and decides as on any experiment."""

import math
import re
from collections.abc import Sequence
from itertools import count

from msgspec.structs import replace

from ci_doctor.correctness.collected.experiment import read_again
from ci_doctor.correctness.collected.formats import read
from ci_doctor.correctness.collected.sources import content
from ci_doctor.correctness.collected.survey import HEADS, CollectedStart, Survey, token
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm, StartOrder
from ci_doctor.correctness.verdict.canary import canary_detected
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.looks import neighbours
from ci_doctor.correctness.verdict.mix_test import smallest_p
from ci_doctor.correctness.verdict.starts import of_arm, restricted
from ci_doctor.load.canonical import text_of
from ci_doctor.model.verdict import Verdict

_WORD = re.compile("[A-Za-z0-9]+")
_CANARY_REQUESTS = 1000  # of all, so that the proof costs no second decision over everything
_LEAST_CANDIDATES = 3
_MOST_IN_TURN = 20


def judge(survey: Survey, experiment: Experiment) -> Decision:
    """The verdict. No further start will be made. Raises InfraError."""
    manner = experiment.comparison.manner
    rules = experiment.rules
    decision = decide(experiment.starts, survey.requests, rules, complete=True, manner=manner)
    if decision.verdict is Verdict.VOID:
        return decision
    if not can_see(survey, experiment):
        reason = (
            "the comparison did not notice an answer that was changed on purpose: "
            "its results do not count"
        )
        return Decision(verdict=Verdict.VOID, reason=reason, kinds=decision.kinds)
    if decision.verdict is Verdict.INCONCLUSIVE and not decision.settle:
        return replace(decision, settle=_settle(experiment, decision))
    return decision


# --- what would settle it ---


def _settle(experiment: Experiment, decision: Decision) -> str:
    """How many more starts make a decision possible, and in which order to make them."""
    rules = experiment.rules
    made = {arm: len(of_arm(experiment.starts, arm)) for arm in Arm}
    if rules.order is StartOrder.EXCHANGEABLE:
        # With one or two candidate starts the baseline would need 79 or 12: more starts in all.
        candidate = max(made[Arm.CANDIDATE], _LEAST_CANDIDATES)
        baseline = max(made[Arm.BASELINE], _baseline_starts(candidate, rules.alpha))
    else:
        baseline = candidate = max(_in_turn(rules.alpha), *made.values())
    more = baseline - made[Arm.BASELINE], candidate - made[Arm.CANDIDATE]
    if decision.mended:
        return (
            "collect the candidate's starts as both sides: they show whether it is steady by itself"
        )
    if not any(more) and decision.doubt is None:
        return "collect more starts of both sides, or make the baseline steadier"
    if rules.order is StartOrder.EXCHANGEABLE:
        return (
            f"a decision takes {baseline} baseline and {candidate} candidate starts: "
            f"collect {more[0]} and {more[1]} more, and name a directory with a file for each start"
        )
    return (
        f"collect {baseline} baseline and {candidate} candidate starts in turn (A B B A …), a file "
        "for each, with the time in each answer (`created`); or assert with `--exchangeable` that "
        "time plays no part"
    )


def _in_turn(alpha: float) -> int:
    """How many starts of each side, made in turn, a decision takes."""
    for each in count(_LEAST_CANDIDATES):
        groups = neighbours((False, True) * each)
        sizes = [(groups.count(group), _of(groups, group)) for group in dict.fromkeys(groups)]
        if smallest_p(sizes) <= alpha or each == _MOST_IN_TURN:
            return each
    raise AssertionError


def _of(groups: Sequence[int], group: int) -> int:
    """How many candidate starts a group of starts in turn has: every second start is one."""
    return sum(each == group for each in groups[1::2])


def _baseline_starts(candidate: int, alpha: float) -> int:
    """How many baseline starts decide at `alpha` beside the candidate's, if starts are exchangeable.

    The change separates the arms completely in one labeling, and one more may do so by chance. With
    arms of equal size each labeling has a mirror image that is as extreme. Never fewer than the
    candidate's.
    """
    for baseline in count(candidate):
        extreme = 4 if baseline == candidate else 2
        if extreme <= alpha * math.comb(baseline + candidate, candidate):
            return baseline
    raise AssertionError


# --- the proof of the comparison ---


def can_see(survey: Survey, experiment: Experiment) -> bool:
    """Whether the comparison notices one candidate answer that is changed in memory.

    Both its bytes and the decision must show it. True if there is no answer to change.
    """
    requests = read_again(survey)
    for start in survey.starts:
        if start.arm is Arm.CANDIDATE:
            if not _bytes_show_it(start, requests):
                return False
            break
    # Of answers with the same bytes one was read whole: it stands for the others.
    first = requests[:_CANARY_REQUESTS]
    results = tuple(
        replace(result, start=restricted([result.start], first)[0]) for result in experiment.results
    )
    return canary_detected(replace(experiment, results=results), first)


def _bytes_show_it(start: CollectedStart, requests: Sequence[str]) -> bool:
    """Whether the comparisons of bytes and of digests notice one changed character of a text."""
    for request in requests:
        place = start.place(request, 1)
        if place is None:
            continue
        form = place.source.form
        line = content(place)
        answer = read(form, line)
        match = _WORD.search(text_of(answer.output or {}))
        if match is None:
            continue
        head = HEADS[form].match(line) if form in HEADS else None
        begin = head.end() if head else 0
        # The word may stand elsewhere first, as in a key. So every occurrence is tried until the
        # answer changes.
        at = line.find(match[0].encode(), begin)
        while at >= 0:
            # One letter or digit becomes a digit: still valid JSON in any string.
            digit = b"1" if line.startswith(b"0", at) else b"0"
            changed = line[:at] + digit + line[at + 1 :]
            # None: the line with the changed byte holds no answer, which is no proof.
            if read(form, changed).digest not in {answer.digest, None}:
                # Without a token the slow way compares this line, and that one was just proved.
                mark = token(form, line, begin) if head else None
                return mark is None or mark != token(form, changed, begin)
            at = line.find(match[0].encode(), at + 1)
        return False
    return True
