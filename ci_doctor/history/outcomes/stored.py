# SPDX-License-Identifier: Apache-2.0
"""Pure. What was written to the history -> outcomes."""

from collections.abc import Mapping
from typing import Final

from ci_doctor.history.results import Ingested, SchemaChange
from ci_doctor.history.rules import MOVED_TIMES, UNREADABLE
from ci_doctor.model.facts.history import IngestFacts, QuarantineFacts, StoredFacts
from ci_doctor.model.finding import Evidence
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row, text_table
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount

_NAMED: Final = 3


def ingest_outcome(ingested: Ingested, database: str) -> Outcome:
    """What came in. It is `void` if no file held evidence."""
    unreadable = [each for each in ingested.unreadable if not each.is_other]
    facts = IngestFacts(
        database=database,
        files=ingested.files,
        attempts=ingested.attempts,
        known_files=ingested.known_files,
        left_out=ingested.left_out,
        unreadable={each.place: each.problem for each in unreadable},
        other_xml={each.place: each.problem for each in ingested.unreadable if each.is_other},
        moved={each.place: each.attempts for each in ingested.moved},
        late_jobs=ingested.late_jobs,
    )
    findings = [
        UNREADABLE.finding(f"{each.place}: {each.problem}", evidence=(Evidence(file=each.place),))
        for each in unreadable
    ]
    findings += [
        MOVED_TIMES.finding(
            f"{each.place}: {amount(each.attempts, 'attempt')} began before 2000, after the end of its job, "
            "or after now",
            evidence=(Evidence(file=each.place),),
            remedy=MOVED_TIMES.remedy,
        )
        for each in ingested.moved
    ]
    is_empty = not ingested.files and not ingested.known_files
    return Outcome(
        verdict=Verdict.VOID if is_empty else None,
        summary=_summary(ingested, database, is_empty=is_empty),
        findings=tuple(findings),
        tables=(_table(facts),),
        facts=facts,
    )


def _summary(ingested: Ingested, database: str, *, is_empty: bool) -> str:
    if is_empty:
        return (
            "no file holds evidence of an attempt or a job: reports of ci-doctor and JUnit XML do "
            "(`pytest --junit-xml FILE`)"
        )
    came = f"{amount(ingested.attempts, 'attempt')} of {amount(ingested.files, 'new file')}"
    known = ""
    if ingested.known_files:
        known = f"; already known: {amount(ingested.known_files, 'file')}"
    return f"wrote {came} to {database}{known}"


def _table(facts: IngestFacts) -> Table:
    rows = [
        row("new files", facts.files),
        row("attempts", facts.attempts),
        row("files that were there", facts.known_files),
        row("files that say what another one says", len(facts.left_out)),
        row("files that could not be read", len(facts.unreadable)),
        row("XML files of something else", _names(facts.other_xml)),
        row("jobs known better than before", len(facts.late_jobs)),
    ]
    return Table(title="Evidence", rows=tuple(rows))


def _names(places: Mapping[str, str]) -> str:
    """How many there are, with the first three."""
    if not places:
        return "0"
    more = ", …" if len(places) > _NAMED else ""
    return f"{len(places)}: {', '.join(list(places)[:_NAMED])}{more}"


def upgrade_outcome(change: SchemaChange, database: str) -> Outcome:
    """What became of the schema."""
    if change.before == change.after:
        summary = f"{database}: the schema is {change.after}, the newest"
    else:
        summary = (
            f"{database}: the schema is {change.after} now; it was {change.before or 'not made'}"
        )
    facts = StoredFacts(
        database=database,
        schema_before=change.before,
        schema_after=change.after,
    )
    return Outcome(verdict=None, summary=summary, facts=facts)


def prune_outcome(removed: int, first_day: str, database: str) -> Outcome:
    """What was removed."""
    return Outcome(
        verdict=None,
        summary=f"removed {amount(removed, 'attempt')} before {first_day} from {database}",
        facts=StoredFacts(database=database, attempts=removed),
    )


def quarantine_outcome(facts: QuarantineFacts) -> Outcome:
    """The entries to paste; it changes no file."""
    left: tuple[Table, ...] = ()
    if facts.unsuggested:
        rows = tuple(row(each.test, each.why) for each in facts.unsuggested)
        left = (Table(title="Flaky, and not suggested", rows=rows),)
    if not facts.entries:
        summary = "no test passed and failed on two commits: nothing is to be put into quarantine"
        if facts.unsuggested:
            tests = amount(len(facts.unsuggested), "flaky test")
            summary = f"nothing is to be put into quarantine: {tests} need another answer"
        return Outcome(verdict=None, summary=summary, tables=left, facts=facts)
    tests = amount(len(facts.entries), "test")
    return Outcome(
        verdict=None,
        summary=f"entries of {tests} for ci-doctor-quarantine.toml; name an owner for each",
        tables=(text_table("Entries", tuple(facts.toml.splitlines())), *left),
        facts=facts,
    )
