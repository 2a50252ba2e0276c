# SPDX-License-Identifier: Apache-2.0
"""Collected samples and their verdict for people: what was compared, and how much agrees. Pure."""

from collections.abc import Iterator

from ci_doctor.correctness.collected.counts import cluster_names, kind_counts
from ci_doctor.correctness.collected.settle import Collected
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import of_arm
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.model.table import Row, Table, row
from ci_doctor.render.figures import amount


def tables(collected: Collected, decision: Decision) -> tuple[Table, ...]:
    """The evidence, a row each."""
    return (Table(title="Evidence", rows=tuple(_rows(collected, decision))),)


def _rows(collected: Collected, decision: Decision) -> Iterator[Row]:
    survey = collected.survey
    for arm in Arm:
        yield row(str(arm), _files(collected, arm))
    no_ids = "; the two sides have no id in common" if survey.aligned == "line" else ""
    yield row("aligned", f"by {survey.aligned}{no_ids}")
    for note in survey.notes:
        yield row("note", note)
    yield row("starts", _starts(collected))
    groups = ["{" + " ".join(names) + "}" for names in cluster_names(collected)]
    if groups:
        yield row("clusters", "  ".join(groups))
    yield row("requests", _kinds(collected, decision))
    varying = [f"{name} {count}" for name, count in collected.within.items() if count]
    if varying:
        yield row("passes", f"differ in {', '.join(varying)}")
    if decision.risk:
        yield row("risk", decision.risk)
    if decision.settle:
        yield row("to settle", decision.settle)


def _files(collected: Collected, arm: Arm) -> str:
    starts = [start for start in collected.survey.starts if start.arm is arm]
    first = starts[0].source
    others = {start.source.path for start in starts} - {first.path}
    more = f" and {len(others)} more" if others else ""
    return f"{first.path}{more}: {first.form.words}, {amount(len(starts), 'start')}"


def _starts(collected: Collected) -> str:
    starts = collected.starts
    total = len(collected.survey.requests)
    arms = []
    for arm in Arm:
        names = [start.name for start in of_arm(starts, arm)]
        arms.append(" ".join(names))
    answered = {start.name: f"{collected.answered(start)}/{total}" for start in starts}
    if len(set(answered.values())) == 1:
        return f"{' | '.join(arms)}   answered {answered[starts[0].name]} each"
    counts = ", ".join(f"{name} {count}" for name, count in answered.items())
    return f"{' | '.join(arms)}   {counts}"


def _kinds(collected: Collected, decision: Decision) -> str:
    counts = kind_counts(collected, decision)
    words = [f"{count} {kind}" for kind, count in counts.items() if count]
    return ", ".join(words) or "none"
