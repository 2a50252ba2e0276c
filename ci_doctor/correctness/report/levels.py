# SPDX-License-Identifier: Apache-2.0
"""Reads answers whose numbers differ, and gives the verdict at each level, for people and programs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from ci_doctor.correctness import rules
from ci_doctor.correctness.report.differences import counted_results, look_up
from ci_doctor.correctness.results import Experiment, ExperimentEnding
from ci_doctor.correctness.settings import AnswerLevel
from ci_doctor.correctness.verdict.compare import counted
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.starts import ArmStart, outcomes
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.load.answer_items import AnswerParts, parts
from ci_doctor.load.canonical import encode
from ci_doctor.load.choices import ulp_distance
from ci_doctor.model.facts.correctness import LevelFacts
from ci_doctor.model.finding import Finding
from ci_doctor.model.table import Table, row
from ci_doctor.model.verdict import Verdict, is_green

# --- how far the numbers of answers lie apart where their words and tokens are the same ---

# Where a number stands: its place, and of an alternative also its token.
_Place = tuple[int, str | None]


class NumberSpread(NamedTuple):
    """The largest distances of two numbers, which need not be those of one pair.

    `nat` is absolute for vectors and scores, `ulp` counts units in the last place of float32.
    """

    nat: float = 0.0
    ulp: int = 0


def number_spread(outputs: Iterable[Mapping[str, Any]]) -> NumberSpread | None:
    """The spread of the numbers of answers to one request.

    Only answers with the same words and tokens are held beside each other; an alternative that some
    of them do not list counts among the others. None if no two of them have a number in common.
    """
    ranges: dict[bytes, dict[_Place, tuple[float, float]]] = {}
    is_compared = False
    for output in outputs:
        divided = parts(output)
        key = encode([divided.words, divided.tokens])
        is_compared |= key in ranges and bool(divided.numbers or divided.alternatives)
        of_these = ranges.setdefault(key, {})
        for place, number in _placed(divided):
            least, most = of_these.get(place, (number, number))
            of_these[place] = min(least, number), max(most, number)
    if not is_compared:
        return None
    pairs = [pair for each in ranges.values() for pair in each.values()]
    return NumberSpread(
        nat=max((most - least for least, most in pairs), default=0.0),
        ulp=max((ulp_distance(least, most) for least, most in pairs), default=0),
    )


def _placed(divided: AnswerParts) -> Iterator[tuple[_Place, float]]:
    for index, number in enumerate(divided.numbers):
        yield (index, None), number
    for index, listed in enumerate(divided.alternatives):
        for token, number in listed.items():
            yield (index, token), number


def spread_of_requests(experiment: Experiment, requests: Sequence[str]) -> NumberSpread | None:
    """The largest spread of these requests over all starts that count; None if none has numbers."""
    spreads = []
    for request in requests:
        # A dict, and not a set: the order of the starts.
        digests: dict[str, None] = {}
        for result in counted_results(experiment):
            digests.update(dict.fromkeys(result.digests.get(request, {}).values()))
        # One that can no longer be read is left out.
        found = (look_up(experiment.outputs, digest) for digest in digests)
        spread = number_spread(output for output in found if output is not None)
        if spread is not None:
            spreads.append(spread)
    if not spreads:
        return None
    return NumberSpread(max(each.nat for each in spreads), max(each.ulp for each in spreads))


# --- the verdict at each level over the starts of one run, for people and for programs ---

# Of so many differing requests the numbers are read again.
MOST_READ = 50
# The others rest on something else than answers, and are the same at each level.
_ON_ANSWERS = {
    Verdict.PASS,
    Verdict.FLAKY,
    Verdict.REGRESSION,
    Verdict.NONDETERMINISTIC,
    Verdict.INCONCLUSIVE,
}


def level_facts(
    experiment: Experiment, decision: Decision, requests: Sequence[str]
) -> tuple[LevelFacts, ...]:
    """A verdict for each level, words first; empty if the gate's verdict rests on no answers.

    Only the gate's decides, and only for it do the starts go on until it is reached.
    """
    if decision.verdict not in _ON_ANSWERS:
        return ()
    return tuple(_of_level(level, experiment, decision, requests) for level in AnswerLevel)


def _of_level(
    level: AnswerLevel, experiment: Experiment, decision: Decision, requests: Sequence[str]
) -> LevelFacts:
    limit = experiment.comparison.limit
    is_gate = level is experiment.comparison.level
    starts = experiment.starts if is_gate else _at(level, experiment.starts)
    differing = _differing(starts, requests)
    verdict = decision.verdict
    # What is equal at a finer level is equal here; a policy may have let something else pass.
    if not is_gate and (verdict is not Verdict.PASS or differing):
        complete = experiment.ending is ExperimentEnding.COMPLETE
        verdict = decide(starts, requests, experiment.rules, complete=complete).verdict
    facts = LevelFacts(
        level=str(level), gate=is_gate, verdict=str(verdict), differing=len(differing)
    )
    if level is not AnswerLevel.NUMBERS:
        return facts
    # Within a limit no request may differ, and the numbers still do.
    apart = differing
    if limit is not None:
        apart = _differing(_at(level, experiment.starts), requests)
    read = apart[:MOST_READ]
    largest = spread_of_requests(experiment, read)
    return replace(
        facts,
        limit=str(limit) if limit else None,
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


def level_findings(facts: Sequence[LevelFacts]) -> Iterator[Finding]:
    """A note if an exact gate is not green for numbers alone: how far they lie apart, what to do.

    A run with a limit names how far they may.
    """
    by_level = {each.level: each for each in facts}
    numbers = by_level.get(AnswerLevel.NUMBERS)
    if numbers is None or not numbers.gate or numbers.limit or numbers.largest_nat is None:
        return
    # Vectors and scores have no words and tokens: there they differ at each level.
    if not is_green(numbers.verdict) and not by_level[AnswerLevel.TOKENS].differing:
        yield rules.NUMBERS_ALONE.finding(
            f"all words and tokens are the same; numbers lie {_largest(numbers)} apart at most",
            remedy=rules.NUMBERS_ALONE.remedy,
        )


def level_tables(facts: Sequence[LevelFacts]) -> Iterator[Table]:
    """A row for each level; no table if all levels show the same, and the finest is the gate."""
    is_default = any(each.gate and each.level == AnswerLevel.NUMBERS for each in facts)
    is_plain = is_default and not any(each.limit for each in facts)
    if len({(each.verdict, each.differing) for each in facts}) < 2 and (is_plain or not facts):
        return
    rows = []
    for each in facts:
        label = f"{each.level} within {each.limit}" if each.limit else each.level
        verdict = f"{each.verdict}, the gate" if each.gate else each.verdict
        rows.append(row(label, verdict, each.differing, _largest(each)))
    yield Table(title="Levels", columns=("verdict", "differing", "numbers apart"), rows=tuple(rows))


def _largest(facts: LevelFacts) -> str:
    """`2.9e-06 nat, 5 ulp`, and of how many requests that is if not of all."""
    if facts.largest_nat is None:
        return ""
    text = f"{facts.largest_nat:.2g} nat, {facts.largest_ulp} ulp"
    if facts.read < facts.apart:
        return f"{text} (in {facts.read} of {facts.apart} requests)"
    return text
