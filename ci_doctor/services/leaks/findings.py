# SPDX-License-Identifier: Apache-2.0
"""What was left behind as findings and as a table, by service. Pure."""

from collections.abc import Iterator, Sequence

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.service import LeftBehind, LeftThing
from ci_doctor.model.table import Row, Table, row, size
from ci_doctor.services import rules

# As many lines as every renderer shows of one excerpt.
_SHOWN = 10


def leak_findings(left: LeftBehind) -> Iterator[Finding]:
    """One for each service, or for those that held a thing together; what is unknown is none."""
    by_owner: dict[tuple[str, ...], list[LeftThing]] = {}
    for thing in left.things:
        by_owner.setdefault(thing.services, []).append(thing)
    for services, things in by_owner.items():
        yield _finding(" and ".join(services), things)
    if left.unseen:
        yield rules.UNSEEN.finding(
            f"what services left behind could not be seen: {', '.join(left.unseen)}",
            remedy=rules.UNSEEN.remedy,
        )


def _finding(services: str, things: Sequence[LeftThing]) -> Finding:
    severity = rules.LEFT_BEHIND.severity
    if any(thing.strict for thing in things):
        severity = Severity.ERROR
    lines = [f"{thing.kind} {thing.name}, {thing.why}" for thing in things[:_SHOWN]]
    if len(things) > _SHOWN:
        lines.append(f"and {len(things) - _SHOWN} more")
    return rules.LEFT_BEHIND.finding(
        f"{services} left behind {summary(things)}",
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy="; ".join(thing.remedy for thing in things[:_SHOWN] if thing.remedy),
        severity=severity,
    )


def summary(things: Sequence[LeftThing]) -> str:
    """`shared memory /dev/shm/psm_1`, `3 things: shared memory, unix socket`."""
    if len(things) == 1:
        return f"{things[0].kind} {things[0].name}"
    kinds = ", ".join(dict.fromkeys(str(thing.kind) for thing in things))
    return f"{len(things)} things: {kinds}"


def leak_table(left: LeftBehind) -> tuple[Table, ...]:
    """What was left by service, and how much belongs to nobody known; empty if there is nothing."""
    rows: list[Row] = []
    for thing in left.things:
        services = " and ".join(thing.services)
        rows.append(row(services, str(thing.kind), thing.name, size(thing.size)))
    for folder, count in left.unknown.items():
        rows.append(row("owner unknown", "new meanwhile", f"{count} in {folder}", None))
    if not left.things:
        return ()
    return (Table(title="Left behind", columns=("what", "name", "size"), rows=tuple(rows)),)
