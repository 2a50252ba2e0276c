# SPDX-License-Identifier: Apache-2.0
"""Collected samples and their verdict for people: what was compared, and how much agrees. Pure."""

from collections.abc import Iterator

from ci_doctor.correctness.collected.counts import cluster_names, kind_counts
from ci_doctor.correctness.collected.reread import Collected
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import of_arm
from ci_doctor.model.table import Row, Table, row
from ci_doctor.render.formatting import amount


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
    if collected.in_time:
        yield row("order", " ".join(start.name for start in collected.in_time))
    groups = _groups(collected)
    if groups:
        yield row("clusters", groups)
    yield row("requests", _kinds(collected, decision))
    yield from _certainty(collected, decision)


def _groups(collected: Collected) -> str:
    """`{A1 A2}  {B1}`: the starts that answered everything alike."""
    words = []
    for group in cluster_names(collected):
        names = " ".join(group)
        words.append(f"{{{names}}}")
    return "  ".join(words)


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
    """The first file of a side, how many others there are, their format and their starts."""
    starts = [start for start in collected.survey.starts if start.arm is arm]
    files = {start.source.path for start in starts}
    source = starts[0].source
    words = str(source.path)
    # Our own samples hold several starts in one file.
    others = len(files) - 1
    if others:
        words = f"{words} and {others} more"
    count = amount(len(starts), "start")
    return f"{words}: {source.form.words}, {count}"


def _starts(collected: Collected) -> str:
    starts = collected.starts
    total = len(collected.survey.requests)
    arms = []
    for arm in Arm:
        names = [start.name for start in of_arm(starts, arm)]
        arms.append(" ".join(names))
    words = " | ".join(arms)
    shares = {}
    for start in starts:
        answered = collected.answered(start)
        shares[start.name] = f"{answered}/{total}"
    distinct = set(shares.values())
    if len(distinct) == 1:
        share = distinct.pop()
        return f"{words}   answered {share} each"
    counts = [f"{name} {share}" for name, share in shares.items()]
    return f"{words}   {', '.join(counts)}"


def _kinds(collected: Collected, decision: Decision) -> str:
    words = []
    for kind, count in kind_counts(collected, decision).items():
        if count:
            word = f"{count} {kind}"
            words.append(word)
    # Two files without any request: the verdict says why.
    return ", ".join(words) or "none"
