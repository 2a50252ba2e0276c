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
    for arm in Arm:
        yield row(str(arm), _files(collected, arm))
    yield row("aligned", _alignment(collected))
    for note in collected.survey.notes:
        yield row("note", note)
    yield row("starts", _starts(collected))
    groups = ["{" + " ".join(names) + "}" for names in cluster_names(collected)]
    if groups:
        yield row("clusters", "  ".join(groups))
    yield row("requests", _kinds(collected, decision))
    yield from _certainty(collected, decision)


def _certainty(collected: Collected, decision: Decision) -> Iterator[Row]:
    varying = [f"{name} {count}" for name, count in collected.within.items() if count]
    if varying:
        yield row("passes", f"differ in {', '.join(varying)}")
    if decision.risk:
        yield row("risk", decision.risk)
    if decision.settle:
        yield row("to settle", decision.settle)


def _alignment(collected: Collected) -> str:
    if collected.survey.aligned == "line":
        return "by line; the two sides have no id in common"
    return "by id"


def _files(collected: Collected, arm: Arm) -> str:
    starts = [start for start in collected.survey.starts if start.arm is arm]
    source = starts[0].source
    files = {start.source.path for start in starts}
    others = len(files) - 1
    more = f" and {others} more" if others else ""
    count = amount(len(starts), "start")
    return f"{source.path}{more}: {source.form.words}, {count}"


def _starts(collected: Collected) -> str:
    starts = collected.starts
    total = len(collected.survey.requests)
    arms = []
    for arm in Arm:
        names = [start.name for start in of_arm(starts, arm)]
        arms.append(" ".join(names))
    counts = {}
    for start in starts:
        counts[start.name] = f"{collected.answered(start)}/{total}"
    words = " | ".join(arms)
    if len(set(counts.values())) == 1:
        return f"{words}   answered {counts[starts[0].name]} each"
    by_start = [f"{name} {count}" for name, count in counts.items()]
    return f"{words}   {', '.join(by_start)}"


def _kinds(collected: Collected, decision: Decision) -> str:
    counts = kind_counts(collected, decision)
    words = [f"{count} {kind}" for kind, count in counts.items() if count]
    return ", ".join(words) or "none"
