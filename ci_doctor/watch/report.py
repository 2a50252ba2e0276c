# SPDX-License-Identifier: Apache-2.0
"""What was seen of a script as findings, a table, facts and lines, beside their rules. Pure."""

from collections.abc import Iterable, Iterator

from msgspec import structs

from ci_doctor.model.facts.diagnose import SupervisedRunFacts
from ci_doctor.model.facts.watch import WatchedDeath, WatchedStall, WatchFacts
from ci_doctor.model.finding import Evidence, Finding, Rule, Severity
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.service import LeftThing, ServiceFailure
from ci_doctor.render.formatting import duration
from ci_doctor.services.findings import finding_of, leak_findings, leak_table
from ci_doctor.watch.timeline import longest, timeline_table

DIED = Rule(
    id="watch/died",
    severity=Severity.ERROR,
    meaning=(
        "A server of the script ended while the script still waited for it, or before the script "
        "failed: nobody answered any more."
    ),
    remedy="Read the excerpt of its log; `--on-death end` ends a script that waits.",
)
STALL = Rule(
    id="watch/stall",
    severity=Severity.WARNING,
    meaning=(
        "For a time the script wrote nothing, used no CPU, and moved nothing over the network or to "
        "a disk; or the time of its step is nearly over. The evidence is what each process waits for."
    ),
    remedy="Read what each process waits for; with py-spy or `--stacks` Python stacks stand there.",
)
RULES = (DIED, STALL)

_SHOWN = 5
_LONGEST = 6


def lines_of(failure: ServiceFailure, waits: str) -> Iterator[str]:
    """What is said of a death at once: how, by which cause, and what waits for it."""
    yield f"✗ {failure.message}"
    yield f"  {_telling_line(failure)}"
    yield f"  {waits}"


def _telling_line(failure: ServiceFailure) -> str:
    """The line of its log that says most, with its place."""
    if failure.cause is not None:
        return f"{failure.cause.place.where}: {failure.cause.place.text.strip()}"
    if failure.tail:
        root = len(failure.tail) - 1 if failure.tail_root is None else failure.tail_root
        return f"{failure.log}: {failure.tail[root].strip()}"
    if failure.log is None:
        return "its output went into no file that can be read"
    return f"{failure.log} is empty"


def stall_lines(stall: WatchedStall) -> Iterator[str]:
    """What is said of a stall at once."""
    if stall.why == "deadline":
        yield f"the step's time is nearly over, after {duration(stall.seconds)}; its processes:"
    else:
        yield f"nothing has been done for {duration(stall.seconds)}; its processes:"
    yield from (f"  {line}" for line in stall.processes)


def left_lines(things: Iterable[LeftThing], *, ended: bool) -> Iterator[str]:
    """What is said of what the script has left."""
    things = tuple(things)
    word = "ended" if ended else "left behind"
    for thing in things[:_SHOWN]:
        remedy = "" if ended or thing.remedy is None else f" ({thing.remedy})"
        yield f"the script {word} {thing.kind} {thing.name}: {thing.why}{remedy}"
    if len(things) > _SHOWN:
        yield f"and {len(things) - _SHOWN} more"


def end_lines(facts: WatchFacts, *, failed: bool) -> list[str]:
    """What a terminal shows last: nothing of a script that ran well and left nothing."""
    lines = list(left_lines(facts.left.things, ended=False))
    if failed or facts.deaths:
        lines += [f"time: {line}" for line in longest(facts, _LONGEST)]
    if facts.problem is not None:
        lines.append(facts.problem)
    return lines


def death_lines(facts: WatchFacts, *, failed: bool) -> list[str]:
    """What a terminal shows before what the log of the script says: that is what it noticed at last."""
    lines = []
    for death in facts.deaths[-_SHOWN:] if failed or facts.is_ended else ():
        word = "ended before" if death.is_late else "waited for"
        lines += [f"{word}: {death.failure.message}", f"  {_telling_line(death.failure)}"]
        lines += [f"  {death.waits}"] if death.is_late else []
    return lines


ENDED_STATUS = 1


def with_watch(outcome: Outcome, facts: WatchFacts, retry_status: int | None = None) -> Outcome:
    """`outcome` with what was seen; no verdict changes.

    If the watch has ended the script, its status is 1, or `retry_status` if another run helps. Of a script that
    failed itself, the summary begins with the first server whose death it had waited through.
    """
    run = outcome.facts
    if isinstance(run, SupervisedRunFacts):
        run = structs.replace(run, watch=facts)
    findings = (
        *map(_death, facts.deaths),
        *map(_stall, facts.stalls),
        *leak_findings(facts.left),
    )
    summary, status = outcome.summary, outcome.command_status
    if facts.is_ended:
        summary = f"{facts.deaths[-1].failure.message}; the script was ended"
        failure = facts.deaths[-1].failure
        helps = failure.may_be_retried
        status = retry_status if retry_status is not None and helps else ENDED_STATUS
    elif status and facts.unanswered:
        summary = f"{facts.unanswered[0].failure.message}; then {summary}"
    return structs.replace(
        outcome,
        summary=summary,
        command_status=status,
        findings=(*findings, *outcome.findings),
        tables=(*outcome.tables, timeline_table(facts), *leak_table(facts.left)),
        facts=run,
    )


def _death(death: WatchedDeath) -> Finding:
    plain = finding_of(death.failure)
    return structs.replace(
        DIED.finding(death.failure.message, remedy=plain.remedy or DIED.remedy),
        evidence=(*plain.evidence, Evidence(excerpt=death.waits)),
        remedy_kind=plain.remedy_kind,
    )


def _stall(stall: WatchedStall) -> Finding:
    first, *lines = stall_lines(stall)
    return STALL.finding(
        first.removesuffix("; its processes:"),
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy=STALL.remedy,
    )
