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
    varying = _varying(collected)
    if varying:
        yield row("passes", f"differ in {varying}")
    if decision.risk:
        yield row("risk", decision.risk)
    if decision.settle:
        yield row("to settle", decision.settle)


def _varying(collected: Collected) -> str:
    words = []
    for name, count in collected.within.items():
        if count:
            word = f"{name} {count}"
            words.append(word)
    return ", ".join(words)


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
    shares = set()
    counts = []
    for start in starts:
        share = f"{collected.answered(start)}/{total}"
        shares.add(share)
        counts.append(f"{start.name} {share}")
    words = " | ".join(arms)
    if len(shares) == 1:
        return f"{words}   answered {shares.pop()} each"
    return f"{words}   {', '.join(counts)}"


def _kinds(collected: Collected, decision: Decision) -> str:
    words = []
    for kind, count in kind_counts(collected, decision).items():
        if count:
            word = f"{count} {kind}"
            words.append(word)
    return ", ".join(words) or "none"
