# SPDX-License-Identifier: Apache-2.0
"""From collected samples to a verdict, by the decision that every experiment gets; and the proof that it can see."""

import re

from msgspec.structs import replace

from ci_doctor.correctness.collected.entries import Entry, read
from ci_doctor.correctness.collected.formats import Format
from ci_doctor.correctness.collected.pieces import alike, head, token
from ci_doctor.correctness.collected.settle import Collected
from ci_doctor.correctness.collected.sources import content, places
from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.canary import canary
from ci_doctor.correctness.verdict.compare import of_arm
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.schedule import baseline_starts
from ci_doctor.load.canonical import text_of
from ci_doctor.model.verdict import Verdict

_WORD = re.compile("[A-Za-z0-9]+")
_CANARY_REQUESTS = 1000  # of all, so that proving it costs no second decision over everything
_LEAST_CANDIDATES = 3


def judge(collected: Collected, rules: Rules) -> Decision:
    """The verdict. Every start that will be made was made, so nothing is still to come."""
    decision = _decide(collected, rules)
    if decision.verdict is Verdict.VOID or can_see(collected, rules):
        needed = _settle(collected, rules) if decision.verdict is Verdict.INCONCLUSIVE else None
        return replace(decision, settle=decision.settle or needed)
    reason = (
        "the comparison did not find an answer that was changed on purpose: nothing it says counts"
    )
    return Decision(verdict=Verdict.VOID, reason=reason, kinds=decision.kinds)


def _decide(collected: Collected, rules: Rules) -> Decision:
    """One request stands for all where all are the same: a hundred thousand of them need not be looked at again."""
    requests, starts = collected.survey.requests, collected.starts
    if collected.survey.odd or not requests:
        return decide(starts, requests, rules, complete=True)
    one = [replace(start, answers={requests[0]: start.answers[requests[0]]}) for start in starts]
    decision = decide(one, requests[:1], rules, complete=True)
    reason = (
        f"all {len(requests)} answers are the same, byte for byte, "
        f"in {len(of_arm(starts, Arm.BASELINE))} baseline and {len(of_arm(starts, Arm.CANDIDATE))} candidate starts"
    )
    return replace(
        decision,
        reason=reason if decision.verdict is Verdict.PASS else decision.reason,
        kinds=dict.fromkeys(requests, decision.kinds[requests[0]]),
    )


def _settle(collected: Collected, rules: Rules) -> str:
    """How many more starts it takes until a decision is possible, also beside a split of the environment's own."""
    baseline, candidate = (len(of_arm(collected.starts, arm)) for arm in Arm)
    wanted = max(candidate, _LEAST_CANDIDATES)
    needed = max(baseline, baseline_starts(wanted, rules.alpha))
    more = needed - baseline, wanted - candidate
    if not any(more):
        return "collect more starts of both sides, or make the baseline steadier"
    return (
        f"a decision takes {needed} baseline and {wanted} candidate starts: collect {more[0]} and {more[1]} more, "
        "and name a directory with a file for each start"
    )


def can_see(collected: Collected, rules: Rules) -> bool:
    """Whether one candidate answer that is changed in memory is found, by its bytes and by the decision.

    True where there is no answer to change.
    """
    start = of_arm(collected.starts, Arm.CANDIDATE)[0]
    found = _an_answer(collected)
    if found is None:
        return True
    request, form, line, entry = found
    kept = [
        request,
        *(name for name in collected.survey.requests[:_CANARY_REQUESTS] if name != request),
    ]
    shown = [
        replace(each, answers={name: each.answers.get(name) for name in kept})
        for each in collected.starts
    ]
    flipped = shown[collected.starts.index(start)]
    output = entry.output or {}
    return _bytes_tell(form, line, entry) and canary(shown, kept, rules, flipped, request, output)


def _an_answer(collected: Collected) -> tuple[str, Format, bytes, Entry] | None:
    """The first answer of the first candidate start: its request, the form of its file, its bytes and what they say."""
    survey = collected.survey
    index = next(index for index, heard in enumerate(survey.starts) if heard.arm is Arm.CANDIDATE)
    source, answers = survey.starts[index].source, collected.starts[index].answers
    for request, columns in survey.odd.items():
        if answers.get(request) is not None:
            line = content(columns[index][1][0])
            return request, source.form, line, read(source.form, line)
    for number, (identity, _, line) in enumerate(places(source), start=1):
        entry = read(source.form, line)
        request = f"line {number}" if survey.aligned == "line" else str(identity or entry.id)
        if entry.output is not None and answers.get(request) is not None:
            return request, source.form, line, entry
    return None


def _bytes_tell(form: Format, line: bytes, entry: Entry) -> bool:
    """Whether the comparisons of bytes and of digests see one changed character of the text."""
    word = _WORD.search(text_of(entry.output or {}))
    begin = head(form, line)
    if word is None:
        return True
    at = line.find(word[0].encode(), begin.at if begin else 0)
    while at >= 0:
        changed = line[:at] + (b"0" if line[at : at + 1] != b"0" else b"1") + line[at + 1 :]
        if read(form, changed).digest not in {entry.digest, None}:
            return begin is None or _fast_tells(form, line, changed, begin.at)
        at = line.find(word[0].encode(), at + 1)
    # Every place where the word stands was changed, and no digest was another.
    return False


def _fast_tells(form: Format, line: bytes, changed: bytes, at: int) -> bool:
    mark = token(form, line, at)
    return not alike(form, line, at, changed, at) and (
        mark is None or mark != token(form, changed, at)
    )
