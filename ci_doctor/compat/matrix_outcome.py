# SPDX-License-Identifier: Apache-2.0
"""Pure. The table of pairs of versions that work, and the first break of each that does not."""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.compat import rules
from ci_doctor.compat.sources.code_tree import CodeTree
from ci_doctor.model.facts.compat import BreakFact, DirectionFact, MatrixFacts, PairFact
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount


class Operand(Struct, frozen=True, kw_only=True):
    """What was named, and the versions that it means."""

    text: str
    trees: tuple[CodeTree, ...]


def matrix_outcome(pairs: Sequence[PairFact]) -> Outcome:
    """`failed` if a pair breaks; `inconclusive` if a pair could not be judged and none breaks."""
    broken = [each for each in pairs if first_break(each) is not None]
    void = [each for each in pairs if first_break(each) is None and not was_judged(each)]
    working = len(pairs) - len(broken) - len(void)
    verdict = Verdict.PASS
    if broken:
        verdict = Verdict.FAILED
    elif void:
        verdict = Verdict.INCONCLUSIVE
    text = f"{working} of {amount(len(pairs), 'pair')} work"
    if broken:
        text = f"{text}, {len(broken)} break"
    if void:
        text = f"{text}, {len(void)} could not be judged"
    return Outcome(
        verdict=verdict,
        summary=text,
        findings=tuple(_findings(broken)),
        tables=(_table(pairs),),
        facts=MatrixFacts(pairs=tuple(pairs)),
    )


def first_break(pair: PairFact) -> tuple[DirectionFact, BreakFact] | None:
    """The first break of a pair, and the direction in which it happens."""
    for direction in pair.directions:
        if direction.breaks:
            return direction, direction.breaks[0]
    return None


def was_judged(pair: PairFact) -> bool:
    """Whether places of a direction could be judged, and all imports that the modules begin with."""
    is_open = any(each.open_imports for each in pair.directions)
    return not is_open and any(sum(each.resolved.values()) for each in pair.directions)


def _table(pairs: Sequence[PairFact]) -> Table:
    rows: list[Row] = []
    for pair in pairs:
        label = f"{pair.first} with {pair.second}"
        first = first_break(pair)
        judged = sum(sum(each.resolved.values()) for each in pair.directions)
        if first is not None:
            direction, broken = first
            count = sum(len(each.breaks) for each in pair.directions)
            where = f"{direction.caller}: {broken.file}:{broken.line}: {broken.sentence}"
            rows.append(row(label, "breaks", count, judged, where))
        else:
            rows.append(row(label, "works" if was_judged(pair) else "not judged", 0, judged, ""))
    columns = ("result", "breaks", "places judged", "first break")
    return Table(title="Pairs", columns=columns, rows=tuple(rows))


def _findings(broken: Sequence[PairFact]) -> list[Finding]:
    """One finding for each first break, with the pairs that have it."""
    pairs: dict[tuple[str, str, str], list[str]] = {}
    sample: dict[tuple[str, str, str], tuple[DirectionFact, BreakFact]] = {}
    for pair in broken:
        first = first_break(pair)
        if first is None:
            continue
        key = (first[1].rule, first[1].file, first[1].sentence)
        pairs.setdefault(key, []).append(f"{pair.first} with {pair.second}")
        sample.setdefault(key, first)
    by_id = {each.id: each for each in rules.RULES}
    findings = []
    for key, names in pairs.items():
        direction, fact = sample[key]
        evidence = [Evidence(file=fact.file, line=fact.line, excerpt=fact.excerpt)]
        if fact.now is not None:
            text = f"{direction.callee}: {fact.now.text}"
            evidence.append(Evidence(file=fact.now.file, line=fact.now.line, excerpt=text))
        if fact.before is not None:
            text = f"before: {fact.before.text}"
            evidence.append(Evidence(file=fact.before.file, line=fact.before.line, excerpt=text))
        if fact.changed_by is not None:
            evidence.append(Evidence(excerpt=f"changed by: {fact.changed_by}"))
        evidence.append(Evidence(excerpt=f"in {', '.join(names)}"))
        caller = direction.caller.partition(" ")[0]
        summary = f"{caller}: {fact.file}:{fact.line}: {fact.sentence}"
        rule = by_id[fact.rule]
        findings.append(rule.finding(summary, evidence=tuple(evidence), remedy=rule.remedy))
    return findings
