# SPDX-License-Identifier: Apache-2.0
"""What was seen in the words of a report: a table of the phases, facts, cases, attempts. Pure."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from ci_doctor.model.outcome import Attachment, Attempt, Case, CaseOutcome
from ci_doctor.model.table import Table, text_table
from ci_doctor.restart.observed import Counts, Observation, Phase
from ci_doctor.restart.promise import Promise, State, Terms, seconds
from ci_doctor.restart.starts import StartRun

_GROUP = "restart-check"
_AT_ONCE_S = 0.05


def sections(seen: Observation, terms: Terms) -> tuple[Table, ...]:
    """The phases as a table, then what the restart was like."""
    if not seen.phases:
        return ()
    rows: list[tuple[str, ...]] = [("", "ok", "failed", "hung", "seconds", "ok/s")]
    rows += [_row(phase, counts) for phase, counts in seen.phases.items()]
    lines = [f"{row[0]:<9}" + "".join(f"{cell:>9}" for cell in row[1:]) for row in rows]
    return (
        text_table(title="Requests", lines=tuple(line.rstrip() for line in lines)),
        *(
            [text_table(title="Restart", lines=tuple(_story(seen, terms)))]
            if seen.killed_at is not None
            else []
        ),
    )


def _row(phase: Phase, counts: Counts) -> tuple[str, ...]:
    rate = (
        counts.rate
        if counts.rate is not None
        else counts.ok / counts.seconds
        if counts.seconds
        else None
    )
    return (
        phase.value,
        str(counts.ok),
        str(counts.failed),
        str(counts.hung),
        f"{counts.seconds:.1f}",
        f"{rate:.1f}" if rate is not None else "",
    )


def _story(seen: Observation, terms: Terms) -> Iterator[str]:
    ended = f", ended {_when(seen.ended_s)}" if seen.ended_s is not None else ""
    yield f"killed      {terms.kill} by {terms.signal} at {seen.killed_at} of {seen.asked} requests{ended}"
    if (released := seen.released) is not None:
        looked_at = [("processes", released.tree_s)]
        looked_at += (
            [(f"port {released.port}", released.port_s)] if released.port is not None else []
        )
        parts = [f"{what} {_when(after)}" for what, after in looked_at]
        yield f"released    {', '.join(parts)}; {released.rss / (1 << 20):.0f} MiB of memory"
    if seen.outage_s is not None:
        yield f"outage      {seconds(seen.outage_s)} from its end to the relaunch"
    if seen.ready_s is not None:
        recovered = (
            f", recovered after {seconds(seen.recovered_s)}" if seen.recovered_s is not None else ""
        )
        yield f"recovery    ready {seconds(seen.ready_s)} after the relaunch{recovered}"
    if seen.old is not None and seen.new is not None:
        yield f"identity    pid {seen.old.pid} -> {seen.new.pid}, start time {seen.old.started} -> {seen.new.started}"
    if seen.ratio is not None:
        wanted = f" (at least {terms.throughput:g})" if terms.throughput else ""
        yield f"throughput  {seen.ratio:.2f} of the baseline's{wanted}"


def _when(after_s: float | None) -> str:
    if after_s is None:
        return "not in time"
    return "at once" if after_s < _AT_ONCE_S else f"after {seconds(after_s)}"


def facts(seen: Observation, promises: Sequence[Promise], terms: Terms) -> dict[str, Any]:
    """Everything as JSON values."""
    down_s = (
        seen.outage_s + seen.ready_s
        if seen.outage_s is not None and seen.ready_s is not None
        else None
    )
    return {
        **to_builtins(seen),
        "terms": to_builtins(terms),
        "promises": {promise.rule.partition("/")[2]: promise.state.value for promise in promises},
        "down_s": down_s,
        "identity_changed": seen.old != seen.new if seen.old and seen.new else None,
        "throughput_ratio": seen.ratio,
    }


def cases(promises: Sequence[Promise], *, reached: bool, reason: str) -> tuple[Case, ...]:
    """One for each promise. Where nothing was killed they are errors: nothing was tested, and nothing may look so."""
    outcomes = {
        State.KEPT: CaseOutcome.PASSED,
        State.BROKEN: CaseOutcome.FAILED,
        State.UNTESTED: CaseOutcome.SKIPPED,
    }
    return tuple(
        Case(
            group=_GROUP,
            name=promise.name,
            outcome=outcomes[promise.state]
            if reached or promise.state is State.BROKEN
            else CaseOutcome.ERROR,
            message=promise.message if reached or promise.state is State.BROKEN else reason,
            detail="\n".join(evidence.excerpt for evidence in promise.evidence if evidence.excerpt)
            or None,
        )
        for promise in promises
    )


def attempts(starts: Sequence[StartRun], directory: Path) -> tuple[Attempt, ...]:
    """One for each start of each service."""
    return tuple(
        Attempt(
            name=f"{run.service} {run.number}",
            outcome=run.outcome,
            ok=run.ready_s is not None and not run.by_itself,
            duration_s=round(run.duration_s, 3),
            log=_relative(run.log, directory),
            facts={"pid": run.pid, "ready_s": run.ready_s, "peak_rss": run.peak_rss},
        )
        for run in starts
    )


def attachments(starts: Sequence[StartRun], directory: Path) -> tuple[Attachment, ...]:
    """Their logs."""
    return tuple(
        Attachment(
            path=_relative(run.log, directory) or "",
            title=f"log of {run.service}, start {run.number}",
        )
        for run in starts
        if run.log is not None
    )


def _relative(path: str | None, directory: Path) -> str | None:
    if path is None:
        return None
    below = Path(path)
    return str(below.relative_to(directory)) if below.is_relative_to(directory) else path
