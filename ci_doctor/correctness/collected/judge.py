# SPDX-License-Identifier: Apache-2.0
"""Reads an answer to prove the comparison, and decides as on any experiment."""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.collected.entries import Entry, read
from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.pieces import alike, head, token
from ci_doctor.correctness.collected.reread import Collected
from ci_doctor.correctness.collected.sources import Source, content, records
from ci_doctor.correctness.collected.survey import Survey
from ci_doctor.correctness.settings import Arm, Rules, StartOrder
from ci_doctor.correctness.tally import digest_at
from ci_doctor.correctness.verdict.canary import canary
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


class _Answer(Struct, frozen=True, kw_only=True):
    """One answer of a candidate start: the bytes of its line, and what they hold."""

    request: str
    form: SampleFormat
    line: bytes
    entry: Entry


def judge(collected: Collected, rules: Rules) -> Decision:
    """The verdict. No further start will be made. Raises InfraError.

    The starts are in order of time if `rules` say that the order is recorded.
    """
    decision = _decide(collected, rules)
    decision = replace(decision, reason=collected.comparison.stated(decision.reason))
    if decision.verdict is Verdict.VOID:
        return decision
    if not can_see(collected, rules):
        reason = (
            "the comparison did not notice an answer that was changed on purpose: "
            "its results do not count"
        )
        return Decision(verdict=Verdict.VOID, reason=reason, kinds=decision.kinds)
    if decision.verdict is Verdict.INCONCLUSIVE and not decision.settle:
        settle = _settle(collected, rules, decision)
        return replace(decision, settle=settle)
    return decision


def _decide(collected: Collected, rules: Rules) -> Decision:
    requests = collected.survey.requests
    starts = collected.judged
    if collected.survey.odd or not requests:
        return decide(starts, requests, rules, complete=True)
    # All requests have the same answer everywhere, so one stands for all: a hundred thousand of
    # them need not be decided one by one.
    first = requests[:1]
    decision = decide(restricted(starts, first), first, rules, complete=True)
    kinds = dict.fromkeys(requests, decision.kinds[first[0]])
    decision = replace(decision, kinds=kinds)
    if decision.verdict is not Verdict.PASS:
        return decision
    baseline = len(of_arm(starts, Arm.BASELINE))
    candidate = len(of_arm(starts, Arm.CANDIDATE))
    # The reason of the decision counts one answer only.
    reason = (
        f"all {len(requests)} answers are the same, byte for byte, "
        f"in {baseline} baseline and {candidate} candidate starts"
    )
    return replace(decision, reason=reason)


def _settle(collected: Collected, rules: Rules, decision: Decision) -> str:
    """How many more starts make a decision possible, and in which order to make them."""
    made = {arm: len(of_arm(collected.starts, arm)) for arm in Arm}
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


def can_see(collected: Collected, rules: Rules) -> bool:
    """Whether the comparison notices one candidate answer that is changed in memory.

    Both its bytes and the decision must show it. True if there is no answer to change.
    """
    answer = _an_answer(collected)
    if answer is None:
        return True
    if not _bytes_show_it(answer):
        return False
    changed = answer.request
    first = collected.survey.requests[:_CANARY_REQUESTS]
    others = [request for request in first if request != changed]
    requests = [changed, *others]
    starts = restricted(collected.judged, requests)
    flipped = of_arm(starts, Arm.CANDIDATE)[0]
    output = answer.entry.output or {}
    level = collected.comparison.level
    return canary(
        starts, requests, rules, flipped, changed, output, lambda other: digest_at(other, level)
    )


def _an_answer(collected: Collected) -> _Answer | None:
    """The first answer of the first candidate start; None if it has none."""
    survey = collected.survey
    arms = [start.arm for start in survey.starts]
    index = arms.index(Arm.CANDIDATE)
    answers = collected.starts[index].answers
    for request, columns in survey.odd.items():
        if answers.get(request) is not None:
            # An answered request has exactly one record in each pass.
            first_pass = columns[index][1]
            position = first_pass[0]
            return _read_answer(request, position.source.form, content(position))
    # Nothing differs, so no position was kept.
    source = survey.starts[index].source
    for answer in _answers(survey, source):
        is_read = answer.entry.output is not None
        if is_read and answers.get(answer.request) is not None:
            return answer
    return None


def _answers(survey: Survey, source: Source) -> Iterator[_Answer]:
    """Every record of a file, by the name that its request has in the survey."""
    for number, (identity, _, line) in enumerate(records(source), start=1):
        answer = _read_answer(f"line {number}", source.form, line)
        if survey.aligned == "id":
            # LMCache's format has the id before the block, and not in it.
            name = identity or answer.entry.id
            answer = replace(answer, request=str(name))
        yield answer


def _read_answer(request: str, form: SampleFormat, line: bytes) -> _Answer:
    entry = read(form, line)
    return _Answer(request=request, form=form, line=line, entry=entry)


def _bytes_show_it(answer: _Answer) -> bool:
    """Whether the comparisons of bytes and of digests notice one changed character of the text."""
    text = text_of(answer.entry.output or {})
    match = _WORD.search(text)
    if match is None:
        return True
    word = match[0].encode()
    line_head = head(answer.form, answer.line)
    begin = line_head.at if line_head else 0
    at = answer.line.find(word, begin)
    # The word may stand elsewhere first, as in a key. So every occurrence is tried until the answer
    # changes.
    while at >= 0:
        changed = _flipped(answer.line, at)
        digest = read(answer.form, changed).digest
        # None: the line with the changed byte holds no answer, which is no proof of a comparison.
        if digest not in {answer.entry.digest, None}:
            return line_head is None or _fast_way_shows_it(answer, changed, begin)
        at = answer.line.find(word, at + 1)
    # Every occurrence was changed, and the digest stayed the same.
    return False


def _flipped(line: bytes, at: int) -> bytes:
    """A line with one letter or digit changed to a digit: still valid JSON in any string."""
    before = line[:at]
    after = line[at + 1 :]
    character = b"0"
    if line.startswith(character, at):
        character = b"1"
    return before + character + after


def _fast_way_shows_it(answer: _Answer, changed: bytes, at: int) -> bool:
    """Whether both fast comparisons notice the change: of two lines, and of their tokens."""
    form = answer.form
    line = answer.line
    if alike(form, line, at, changed, at):
        return False
    mark = token(form, line, at)
    # Without a token the slow way compares this line, and that one was just proved.
    return mark is None or mark != token(form, changed, at)
