# SPDX-License-Identifier: Apache-2.0
"""Pure. Two snapshots, compared: every difference in the order of suspicion, as tables and facts.

The order is that of measurements on serving engines: first what changes the bits of an answer, then
what can make a start or a request fail, then what is worth knowing.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, assert_never

from msgspec import Struct

from ci_doctor.drift.snapshot import InterpreterSnapshot, PackageSnapshot, Snapshot, by_folder
from ci_doctor.environment.determinism_table import BY_NAME
from ci_doctor.identity.identity import differences, is_fact
from ci_doctor.identity.libraries import matters
from ci_doctor.model.facts.preparing import (
    ChangeArea,
    ChangeKind,
    Drift,
    EnvironmentChange,
    FileChange,
    OneSided,
    SnapshotFacts,
    Suspicion,
)
from ci_doctor.model.outcome import Outcome, Row, Table, Verdict, row

ALL_AREAS = frozenset(ChangeArea)
_Packages = Mapping[str, PackageSnapshot]
_Pairs = list[tuple[InterpreterSnapshot, InterpreterSnapshot]]
# Other bytes under one version are the least expected.
_KINDS = (ChangeKind.BYTES, ChangeKind.CHANGED, ChangeKind.ADDED, ChangeKind.REMOVED)
_WORST_FIRST = list(Suspicion)


class SuspicionRow(Struct, frozen=True, kw_only=True):
    """The suspicion of a change, and its row in there: the lower, the more suspicious."""

    suspicion: Suspicion
    row: int


# Facts and packages that break comparability, in their order. Packages are patterns of whole names.
_BITS: Final = (
    r"gpu(\..+)?",
    r"driver",
    r"cuda\.toolkit|nvidia-cuda-.*|cuda-(python|bindings|core)",
    r"nvidia-cublas.*",
    r"nvidia-cudnn.*",
    r"nvidia-nccl.*",
    r"torch",
    r"triton|triton-kernels|pytorch-triton.*",
    r"flashinfer-.*",
    r"flash-attn.*|vllm-flash-attn|flash-mla",
    r"vllm|sglang|lmcache|tensorrt-llm",
    r"transformers|tokenizers",
)
_OTHER_LIBRARY: Final = len(_BITS)
_DETERMINISM: Final = _OTHER_LIBRARY + 1
_OTHER_SETTING: Final = _DETERMINISM + 1
# Facts that can explain a failure, in their order; packages come between the first and the rest.
_FAILURES: Final = (
    r"python|interpreter",
    r"start file .*",
    r"PYTHONPATH|LD_LIBRARY_PATH|LD_PRELOAD|PYTHON.*|VIRTUAL_ENV|PATH",
    r"libc",
    r"limit\..*|memory|shared-memory",
    r"ulimit\..*",
    r"sysctl\..*",
    r"cpu\.(flags|cores|architecture)",
    r"locale|umask|os",
)
_PACKAGE_ROW: Final = 3
# Packages of a distribution that serving engines load or build with.
_SYSTEM: Final = re.compile(
    r"libc6|glibc|musl|libstdc\+\+.*|libgomp\d*|gcc(-\d+)?|g\+\+(-\d+)?|python3(\.\d+)?"
    r"|(lib)?(nvidia|cuda|cudnn|nccl|cublas)[-\d].*|libibverbs\d*|rdma-core|openmpi.*|libopenmpi.*"
)
# Of an interpreter at another path.
OTHER_PATH: Final = SuspicionRow(suspicion=Suspicion.INFORMATION, row=0)
# The name of a variable alone says little.
NAME_ONLY: Final = SuspicionRow(suspicion=Suspicion.INFORMATION, row=1)


class _Ranked(NamedTuple):
    """A change, and its row within its suspicion: the lower, the more suspicious."""

    row: int
    change: EnvironmentChange


def compare(
    before: Snapshot,
    after: Snapshot,
    areas: Collection[ChangeArea] = ALL_AREAS,
    *,
    sources: tuple[str, str] = ("", ""),
) -> Drift:
    """What is different in `after`, in these `areas`; `sources` say where the two are from."""
    pairs = interpreter_pairs(before, after)
    ranked = [each for each in _changes(before, after, pairs) if each.change.area in areas]
    one_sided = [each for each in _one_sided(before, after, pairs) if each.area in areas]
    return Drift(
        before=sources[0],
        after=sources[1],
        changes=tuple(each.change for each in sorted(ranked, key=_order)),
        one_sided=tuple(
            sorted(one_sided, key=lambda each: (_WORST_FIRST.index(each.suspicion), each.subject))
        ),
        contents_compared=before.has_contents and after.has_contents,
    )


def _order(ranked: _Ranked) -> tuple[object, ...]:
    """By suspicion, then by kind and name."""
    change = ranked.change
    return (
        _WORST_FIRST.index(change.suspicion),
        ranked.row,
        _KINDS.index(change.kind),
        change.subject,
        change.interpreter or "",
    )


def interpreter_pairs(before: Snapshot, after: Snapshot) -> _Pairs:
    """The interpreters that stand for each other: those of one path, then the rest in their order."""
    by_path = {each.python: each for each in before.interpreters}
    pairs = [(by_path[each.python], each) for each in after.interpreters if each.python in by_path]
    paired = {new.python for _, new in pairs}
    old_rest = [each for each in before.interpreters if each.python not in paired]
    new_rest = [each for each in after.interpreters if each.python not in paired]
    pairs += zip(old_rest, new_rest, strict=False)
    return pairs


def _changes(before: Snapshot, after: Snapshot, pairs: _Pairs) -> Iterator[_Ranked]:
    for difference in differences(before.machine, after.machine):
        if not difference.knowledge:
            name = difference.fact
            sides = (difference.left, difference.right)
            yield _change(ChangeArea.MACHINE, name, of_fact(name), sides)
    yield from _variable_changes(before.variables, after.variables)
    if before.system_packages_unknown is None and after.system_packages_unknown is None:
        yield from _mapping_changes(
            before.system_packages,
            after.system_packages,
            ChangeArea.SYSTEM,
            of_system_package,
        )
    for old, other in pairs:
        yield from _interpreter_changes(old, other, other.python if len(pairs) > 1 else None)
    paired = [id(each) for pair in pairs for each in pair]
    gone = [(each.python, None) for each in before.interpreters if id(each) not in paired]
    new = [(None, each.python) for each in after.interpreters if id(each) not in paired]
    for sides in (*gone, *new):
        yield _change(ChangeArea.PACKAGES, "interpreter", of_fact("interpreter"), sides)


def _variable_changes(
    before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> Iterator[_Ranked]:
    for name in sorted({*before, *after}):
        is_in_both = name in before and name in after
        old, new = before.get(name), after.get(name)
        if is_in_both and (old is None or new is None or old == new):
            continue  # a name without a value says no more than that it is set
        standing = of_variable(name)
        if old is None and new is None:
            standing = NAME_ONLY
            old, new = ("set", None) if name in before else (None, "set")
        yield _change(ChangeArea.VARIABLES, name, standing, (old, new))


def _mapping_changes(
    before: Mapping[str, str],
    after: Mapping[str, str],
    area: ChangeArea,
    standing_of: Callable[[str], SuspicionRow],
    interpreter: str | None = None,
) -> Iterator[_Ranked]:
    for name in sorted({*before, *after}):
        sides = (before.get(name), after.get(name))
        if sides[0] != sides[1]:
            yield _change(area, name, standing_of(name), sides, interpreter)


def _interpreter_changes(
    before: InterpreterSnapshot, after: InterpreterSnapshot, interpreter: str | None
) -> Iterator[_Ranked]:
    area = ChangeArea.PACKAGES
    if "packages" not in before.unknown and "packages" not in after.unknown:
        for name in sorted({*before.packages, *after.packages}):
            old, new = before.packages.get(name), after.packages.get(name)
            change = _package_change(name, old, new, interpreter)
            if change is not None:
                yield change
        yield from _mapping_changes(
            {f"start file {name}": digest for name, digest in before.start_files.items()},
            {f"start file {name}": digest for name, digest in after.start_files.items()},
            area,
            of_fact,
            interpreter,
        )
    if before.python != after.python:
        # It may explain why all packages changed; of two environments compared, it is no surprise.
        yield _change(area, "interpreter", OTHER_PATH, (before.python, after.python))
    if before.version and after.version and before.version != after.version:
        yield _change(
            area, "python", of_fact("python"), (before.version, after.version), interpreter
        )


def _package_change(
    name: str,
    before: PackageSnapshot | None,
    after: PackageSnapshot | None,
    interpreter: str | None,
) -> _Ranked | None:
    """How a package differs: its version, its origin, or the files of one version."""
    old = None if before is None else before.words
    new = None if after is None else after.words
    more: dict[str, Any] = {}
    if before is not None and after is not None and old == new:
        files = _file_changes(before, after)
        if not files:
            return None
        more = {"kind": ChangeKind.BYTES, "files": files}
    return _change(ChangeArea.PACKAGES, name, of_package(name), (old, new), interpreter, **more)


def _file_changes(before: PackageSnapshot, after: PackageSnapshot) -> tuple[FileChange, ...]:
    old: Mapping[str, str] = before.files
    new: Mapping[str, str] = after.files
    if before.folders or after.folders:
        old = before.folders or by_folder(before.files)
        new = after.folders or by_folder(after.files)
    # One side that knows no files is a lack of knowledge, and no difference.
    if not old or not new:
        return ()
    return tuple(
        FileChange(path=path, before=old.get(path), after=new.get(path))
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    )


def _change(
    area: ChangeArea,
    subject: str,
    standing: SuspicionRow,
    sides: tuple[str | None, str | None],
    interpreter: str | None = None,
    **more: Any,
) -> _Ranked:
    before, after = sides
    kind = ChangeKind.CHANGED
    if before is None:
        kind = ChangeKind.ADDED
    elif after is None:
        kind = ChangeKind.REMOVED
    fields = {"kind": kind, "before": before, "after": after, "interpreter": interpreter, **more}
    change = EnvironmentChange(area=area, subject=subject, suspicion=standing.suspicion, **fields)
    return _Ranked(standing.row, change)


def _one_sided(before: Snapshot, after: Snapshot, pairs: _Pairs) -> Iterator[OneSided]:
    """What one of the two could not read, and the other could: nobody can say whether it differs."""
    for difference in differences(before.machine, after.machine):
        name = difference.fact
        if difference.knowledge:
            reasons = (before.machine.unknown.get(name), after.machine.unknown.get(name))
            known = before.machine.facts.get(name) or after.machine.facts.get(name)
            yield _unknown(ChangeArea.MACHINE, name, of_fact(name).suspicion, reasons, known)
    for old, new in pairs:
        yield from _one_sided_packages(old.packages, new.packages)
        # What neither side knows of an interpreter may differ as well: nobody compared it.
        for what in sorted({*old.unknown} | {*new.unknown}):
            subject = f"{what} of {new.python}"
            reasons = (old.unknown.get(what), new.unknown.get(what))
            yield _unknown(ChangeArea.PACKAGES, subject, Suspicion.FAILURE, reasons)
    reasons = (before.system_packages_unknown, after.system_packages_unknown)
    if (reasons[0] is None) != (reasons[1] is None):
        yield _unknown(ChangeArea.SYSTEM, "system packages", Suspicion.FAILURE, reasons)


def _one_sided_packages(before: _Packages, after: _Packages) -> Iterator[OneSided]:
    """What only one side knows of a package that both have in one version."""
    for name in sorted({*before} & {*after}):
        old, new = before[name], after[name]
        differing = {*old.unknown} ^ {*new.unknown} if old.words == new.words else set()
        for what in sorted(differing):
            reasons = (old.unknown.get(what), new.unknown.get(what))
            standing = of_package(name).suspicion
            yield _unknown(ChangeArea.PACKAGES, f"{what} of {name}", standing, reasons)


def _unknown(
    area: ChangeArea,
    subject: str,
    standing: Suspicion,
    reasons: tuple[str | None, str | None],
    known: str | None = None,
) -> OneSided:
    """`reasons` are those of the side before and of the side after; None for one that knows."""
    return OneSided(
        area=area,
        subject=subject,
        suspicion=standing,
        unknown_in="after" if reasons[0] is None else "before",
        reason=reasons[0] or reasons[1] or "",
        known=known,
    )


def of_package(name: str) -> SuspicionRow:
    """Of a Python package, by its normal name."""
    row = _first(_BITS, name)
    if row is not None:
        return SuspicionRow(suspicion=Suspicion.COMPARABILITY, row=row)
    if matters(name):
        return SuspicionRow(suspicion=Suspicion.COMPARABILITY, row=_OTHER_LIBRARY)
    return SuspicionRow(suspicion=Suspicion.FAILURE, row=_PACKAGE_ROW)


def of_fact(name: str) -> SuspicionRow:
    """Of a fact of the machine or of an interpreter."""
    row = _first(_BITS, name)
    if row is not None:
        return SuspicionRow(suspicion=Suspicion.COMPARABILITY, row=row)
    row = _first(_FAILURES, name)
    if row is not None:
        return SuspicionRow(suspicion=Suspicion.FAILURE, row=_behind_packages(row))
    return SuspicionRow(suspicion=Suspicion.INFORMATION, row=0)


def of_variable(name: str) -> SuspicionRow:
    """Of a variable whose value is kept."""
    if name in BY_NAME:
        return SuspicionRow(suspicion=Suspicion.COMPARABILITY, row=_DETERMINISM)
    if is_fact(name):
        return SuspicionRow(suspicion=Suspicion.COMPARABILITY, row=_OTHER_SETTING)
    row = _first(_FAILURES, name)
    behind = _behind_packages(len(_FAILURES) if row is None else row)
    return SuspicionRow(suspicion=Suspicion.FAILURE, row=behind)


def of_system_package(name: str) -> SuspicionRow:
    """Of a package of the distribution."""
    if _SYSTEM.fullmatch(name.partition(":")[0]):
        return SuspicionRow(suspicion=Suspicion.FAILURE, row=len(_FAILURES) + 2)
    return SuspicionRow(suspicion=Suspicion.INFORMATION, row=2)


def _behind_packages(row: int) -> int:
    return row if row < _PACKAGE_ROW else row + 1


def _first(patterns: tuple[str, ...], name: str) -> int | None:
    return next((row for row, pattern in enumerate(patterns) if re.fullmatch(pattern, name)), None)


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
            paths = [file.path for file in change.files]
            names = ", ".join(paths[:_FILES_IN_A_SENTENCE])
            more = len(paths) - _FILES_IN_A_SENTENCE
            if more > 0:
                names += f" and {more} more"
            return f"{change.subject} {change.after or ''}: the same version, other bytes: {names}"
        case _ as never:
            assert_never(never)


def _cut(value: str | None) -> str:
    text = "absent" if value is None else value
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
