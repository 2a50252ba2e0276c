# SPDX-License-Identifier: Apache-2.0
"""Pure. The outcomes of `ci-doctor env snapshot` and `ci-doctor env diff`: tables and facts."""

from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from ci_doctor.drift.snapshot import Snapshot
from ci_doctor.model.facts.drift import (
    ChangeKind,
    Drift,
    EnvironmentChange,
    OneSided,
    SnapshotFacts,
    Suspicion,
)
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row
from ci_doctor.model.verdict import Verdict

# A hundred packages change at once, and nobody reads a hundred lines.
SHOWN: Final = 15
_NAMES_SHOWN: Final = 10
# A list of system packages or of paths is longer than a line.
_LONGEST_VALUE: Final = 100
_FILES_IN_A_SENTENCE: Final = 5
_TITLES: Final = {
    Suspicion.COMPARABILITY: "Breaks comparability",
    Suspicion.FAILURE: "Can explain failures",
    Suspicion.INFORMATION: "Informational",
}


def snapshot_outcome(snapshot: Snapshot, file: str | None) -> Outcome:
    """What was recorded; nothing is judged."""
    facts = snapshot_facts(snapshot, file)
    rows = [row(python, f"{count} packages") for python, count in facts.packages.items()]
    rows.append(row("system", f"{facts.system_packages} packages"))
    tables = [Table(title="Recorded", rows=tuple(rows))]
    unknown = _unknown_rows(facts.unknown)
    if unknown:
        tables.append(Table(title="Unknown", rows=tuple(_folded(unknown))))
    return Outcome(
        verdict=None,
        summary=f"the environment is recorded in {file or 'stdout'}",
        tables=tuple(tables),
        facts=facts,
    )


def snapshot_facts(snapshot: Snapshot, file: str | None) -> SnapshotFacts:
    """What `snapshot` holds, and what it could not read."""
    packages = {}
    unknown = dict(snapshot.machine.unknown)
    for interpreter in snapshot.interpreters:
        packages[interpreter.python] = len(interpreter.packages)
        for what, reason in interpreter.unknown.items():
            unknown[f"{what} of {interpreter.python}"] = reason
        for name, package in interpreter.packages.items():
            for what, reason in package.unknown.items():
                unknown[f"{what} of {name}"] = reason
    if snapshot.system_packages_unknown is not None:
        unknown["system packages"] = snapshot.system_packages_unknown
    return SnapshotFacts(
        file=file,
        has_contents=snapshot.has_contents,
        packages=packages,
        system_packages=len(snapshot.system_packages),
        unknown=unknown,
    )


def _unknown_rows(unknown: Mapping[str, str]) -> list[Row]:
    """A row a reason: a distribution's own Python has dozens of packages without a RECORD."""
    names: dict[str, list[str]] = {}
    for name, reason in unknown.items():
        names.setdefault(reason, []).append(name)
    rows = []
    for reason, of_one in names.items():
        more = f" and {len(of_one) - 1} more" if len(of_one) > 1 else ""
        rows.append(row(f"{of_one[0]}{more}", reason))
    return rows


def diff_outcome(drift: Drift, *, show_all: bool = False) -> Outcome:
    """What differs, by suspicion; nothing is judged. `show_all`: leave no line out."""
    return Outcome(
        verdict=None,
        summary=_summary(drift),
        tables=tuple(_tables(drift, show_all=show_all)),
        facts=drift,
    )


def verdict_on_request(drift: Drift) -> Verdict | None:
    """What `--exit-code` makes of it; None if nothing but informational facts differs.

    `failed` if something differs that can change a result, `inconclusive` if one side does not know
    such a fact: then nobody can say that nothing differs.
    """
    if any(each.suspicion is not Suspicion.INFORMATION for each in drift.changes):
        return Verdict.FAILED
    if any(each.suspicion is not Suspicion.INFORMATION for each in drift.one_sided):
        return Verdict.INCONCLUSIVE
    return None


def change_rows(changes: Sequence[EnvironmentChange], shown: int | None = SHOWN) -> list[Row]:
    """A line for each of the first `shown`, and one that counts the rest."""
    rows = [Row(label=sentence(each)) for each in changes[:shown]]
    rest = changes[len(rows) :]
    if rest:
        rows.append(Row(label=_rest(rest)))
    return rows


def _rest(rest: Sequence[EnvironmentChange]) -> str:
    names = ", ".join(each.subject for each in rest[:_NAMES_SHOWN])
    if len(rest) > _NAMES_SHOWN:
        names += ", …"
    return f"and {len(rest)} more: {names}"


def one_sided_row(each: OneSided) -> Row:
    """A line about a fact that one side does not know."""
    side = "before" if each.unknown_in == "before" else "now"
    known = "" if each.known is None else f" (the other side: {each.known})"
    return Row(label=f"{each.subject} {side} unknown: {each.reason}{known}")


def _tables(drift: Drift, *, show_all: bool) -> list[Table]:
    shown = None if show_all else SHOWN
    tables = []
    for suspicion, title in _TITLES.items():
        changes = [each for each in drift.changes if each.suspicion is suspicion]
        if changes:
            tables.append(Table(title=title, rows=tuple(change_rows(changes, shown))))
    if drift.one_sided:
        rows = [one_sided_row(each) for each in drift.one_sided]
        shown_rows = rows if show_all else _folded(rows)
        tables.append(Table(title="Known to one side only", rows=tuple(shown_rows)))
    if not drift.contents_compared:
        text = "contents of files: only RECORD was compared (`env snapshot --hash-files` on both)"
        tables.append(Table(title="Not compared", rows=(Row(label=text),)))
    return tables


def _folded(rows: Sequence[Row]) -> list[Row]:
    kept = list(rows[:SHOWN])
    if len(rows) > SHOWN:
        kept.append(Row(label=f"and {len(rows) - SHOWN} more"))
    return kept


def _summary(drift: Drift) -> str:
    if not drift.changes:
        if drift.one_sided:
            return (
                f"no difference is known; {len(drift.one_sided)} facts are known to one side only"
            )
        return "the environments do not differ"
    parts = []
    for suspicion, title in _TITLES.items():
        count = sum(each.suspicion is suspicion for each in drift.changes)
        if count:
            parts.append(f"{count} {title[0].lower()}{title[1:]}")
    return f"{len(drift.changes)} differences: {', '.join(parts)}"


def sentence(change: EnvironmentChange) -> str:
    """`transformers 5.4.0 -> 5.5.0`."""
    text = _described(change)
    return text if change.interpreter is None else f"{text} ({change.interpreter})"


def _described(change: EnvironmentChange) -> str:
    match change.kind:
        case ChangeKind.CHANGED:
            return f"{change.subject} {_cut(change.before)} -> {_cut(change.after)}"
        case ChangeKind.ADDED:
            return f"{change.subject} {_cut(change.after)} added".replace("  ", " ")
        case ChangeKind.REMOVED:
            return f"{change.subject} {_cut(change.before)} removed".replace("  ", " ")
        case ChangeKind.BYTES:
            return _bytes_sentence(change)
        case _ as never:
            assert_never(never)


def _bytes_sentence(change: EnvironmentChange) -> str:
    paths = [file.path for file in change.files]
    names = ", ".join(paths[:_FILES_IN_A_SENTENCE])
    more = len(paths) - _FILES_IN_A_SENTENCE
    if more > 0:
        names += f" and {more} more"
    return f"{change.subject} {change.after or ''}: the same version, other bytes: {names}"


def _cut(value: str | None) -> str:
    text = "absent" if value is None else value
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
