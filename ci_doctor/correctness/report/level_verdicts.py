# SPDX-License-Identifier: Apache-2.0
"""The verdict at each level over the starts of one run, for people and for programs. Pure."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness import rules
from ci_doctor.correctness.comparison import AnswerLevel, Comparison
from ci_doctor.correctness.report.number_spread import NumberSpread
from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.verdict.compare import counted
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import ArmStart, outcomes
from ci_doctor.model.facts.answers import LevelFacts
from ci_doctor.model.finding import Finding
from ci_doctor.model.table import Row, Table, row
from ci_doctor.model.verdict import Verdict, is_green

# Of so many differing requests the numbers are read again.
MOST_READ = 50
_COLUMNS = ("verdict", "differing", "numbers apart")
# The others rest on something else than answers, and are the same at each level.
_ON_ANSWERS = {
    Verdict.PASS,
    Verdict.FLAKY,
    Verdict.REGRESSION,
    Verdict.NONDETERMINISTIC,
    Verdict.INCONCLUSIVE,
}
_Spread = Callable[[Sequence[str]], NumberSpread | None]


class JudgedStarts(Struct, frozen=True, kw_only=True):
    """What is judged at each level: starts, requests, and the gate's comparison and decision.

    `complete` as in `decide`.
    """

    starts: Sequence[ArmStart]
    requests: Sequence[str]
    rules: Rules
    complete: bool
    comparison: Comparison
    decision: Decision


def level_facts(judged: JudgedStarts, spread: _Spread) -> tuple[LevelFacts, ...]:
    """A verdict for each level, words first; empty if the gate's verdict rests on no answers.

    Only the gate's decides, and only for it do the starts go on until it is reached. `spread` gives
    the spread of the numbers over requests, at most MOST_READ.
    """
    if judged.decision.verdict not in _ON_ANSWERS:
        return ()
    return tuple(_of_level(level, judged, spread) for level in AnswerLevel)


def _of_level(level: AnswerLevel, judged: JudgedStarts, spread: _Spread) -> LevelFacts:
    is_gate = level is judged.comparison.level
    starts = judged.starts if is_gate else _at(level, judged.starts)
    differing = _differing(starts, judged.requests)
    verdict = judged.decision.verdict
    if not is_gate:
        verdict = _decided(starts, differing, judged)
    facts = LevelFacts(
        level=str(level), gate=is_gate, verdict=str(verdict), differing=len(differing)
    )
    if level is not AnswerLevel.NUMBERS:
        return facts
    # Within a limit no request may differ, and the numbers still do.
    apart = differing
    if judged.comparison.limit is not None:
        apart = _differing(_at(level, judged.starts), judged.requests)
    read = apart[:MOST_READ]
    largest = spread(read) if read else None
    return replace(
        facts,
        limit=str(judged.comparison.limit) if judged.comparison.limit else None,
        largest_nat=largest.nat if largest else None,
        largest_ulp=largest.ulp if largest else None,
        read=len(read),
        apart=len(apart),
    )


def _at(level: AnswerLevel, starts: Sequence[ArmStart]) -> list[ArmStart]:
    """The starts whose outcomes at a level are known, with these as their answers."""
    known = [start for start in starts if level in start.levels]
    return [replace(start, answers=start.levels[level]) for start in known]


def _differing(starts: Sequence[ArmStart], requests: Sequence[str]) -> list[str]:
    usable = counted(starts)
    return [request for request in requests if len(outcomes(usable, request)) > 1]


def _decided(starts: Sequence[ArmStart], differing: Sequence[str], judged: JudgedStarts) -> Verdict:
    gate = judged.decision
    # What is equal at a finer level is equal here; a policy may have let something else pass.
    if gate.verdict is Verdict.PASS and not differing:
        return Verdict.PASS
    return decide(starts, judged.requests, judged.rules, complete=judged.complete).verdict


def level_findings(facts: Sequence[LevelFacts]) -> Iterator[Finding]:
    """A note if an exact gate is not green for numbers alone: how far they lie apart, what to do.

    A run with a limit names how far they may.
    """
    by_level = {each.level: each for each in facts}
    numbers = by_level.get(AnswerLevel.NUMBERS)
    if numbers is None or not numbers.gate or numbers.limit or numbers.largest_nat is None:
        return
    # Vectors and scores have no words and tokens: there they differ at each level.
    if is_green(numbers.verdict) or by_level[AnswerLevel.TOKENS].differing:
        return
    summary = f"all words and tokens are the same; numbers lie {_largest(numbers)} apart at most"
    yield rules.NUMBERS_ALONE.finding(summary, remedy=rules.NUMBERS_ALONE.remedy)


def level_tables(facts: Sequence[LevelFacts]) -> tuple[Table, ...]:
    """A row for each level; no table if all levels show the same, and the finest is the gate."""
    shown = {(each.verdict, each.differing) for each in facts}
    is_default = any(each.gate and each.level == AnswerLevel.NUMBERS for each in facts)
    is_within = any(each.limit for each in facts)
    if len(shown) < 2 and is_default and not is_within:
        return ()
    rows = tuple(_rows(facts))
    return (Table(title="Levels", columns=_COLUMNS, rows=rows),) if rows else ()


def _rows(facts: Sequence[LevelFacts]) -> Iterator[Row]:
    for each in facts:
        label = each.level
        if each.limit:
            label = f"{label} within {each.limit}"
        verdict = f"{each.verdict}, the gate" if each.gate else each.verdict
        yield row(label, verdict, each.differing, _largest(each))


def _largest(facts: LevelFacts) -> str:
    """`2.9e-06 nat, 5 ulp`, and of how many requests that is if not of all."""
    if facts.largest_nat is None:
        return ""
    text = f"{facts.largest_nat:.2g} nat, {facts.largest_ulp} ulp"
    if facts.read < facts.apart:
        return f"{text} (in {facts.read} of {facts.apart} requests)"
    return text
