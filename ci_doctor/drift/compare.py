# SPDX-License-Identifier: Apache-2.0
"""Pure. Two snapshots, compared: every difference in the order of suspicion."""

from collections.abc import Callable, Collection, Iterator, Mapping

from ci_doctor.drift import suspicion
from ci_doctor.drift.change import (
    ChangeArea,
    ChangeKind,
    Drift,
    EnvironmentChange,
)
from ci_doctor.drift.interpreter_pairs import InterpreterPair, interpreter_pairs
from ci_doctor.drift.one_sided import one_sided_facts
from ci_doctor.drift.package_changes import package_changes
from ci_doctor.drift.snapshot import InterpreterSnapshot, Snapshot
from ci_doctor.drift.suspicion import SuspicionRow
from ci_doctor.identity.identity import Identity, differences

ALL_AREAS = frozenset(ChangeArea)


def compare(before: Snapshot, after: Snapshot, areas: Collection[ChangeArea] = ALL_AREAS) -> Drift:
    """What is different in `after`, in these `areas`."""
    changes = [each for each in _changes(before, after) if each.area in areas]
    one_sided = [each for each in one_sided_facts(before, after) if each.area in areas]
    return Drift(
        changes=tuple(sorted(changes, key=_order)),
        one_sided=tuple(sorted(one_sided, key=lambda each: (each.suspicion, each.subject))),
        contents_compared=before.has_contents and after.has_contents,
    )


_KINDS = (ChangeKind.BYTES, ChangeKind.CHANGED, ChangeKind.ADDED, ChangeKind.REMOVED)


def _order(change: EnvironmentChange) -> tuple[object, ...]:
    """Other bytes under one version are the least expected; then a version that went back."""
    return (
        change.suspicion,
        change.row,
        _KINDS.index(change.kind),
        not change.went_back,
        change.subject,
        change.place or "",
    )


def _changes(before: Snapshot, after: Snapshot) -> Iterator[EnvironmentChange]:
    yield from _fact_changes(before.machine, after.machine)
    yield from _variable_changes(before.variables, after.variables)
    if before.system_packages_unknown is None and after.system_packages_unknown is None:
        yield from _mapping_changes(
            before.system_packages,
            after.system_packages,
            ChangeArea.SYSTEM,
            suspicion.of_system_package,
        )
    pairs = interpreter_pairs(before, after)
    for old, new in pairs:
        place = new.python if len(pairs) > 1 else None
        yield from _interpreter_changes(old, new, place)
    yield from _unpaired(before, after, pairs)


def _fact_changes(before: Identity, after: Identity) -> Iterator[EnvironmentChange]:
    for difference in differences(before, after):
        if not difference.knowledge:
            yield _change(
                ChangeArea.MACHINE,
                difference.fact,
                suspicion.of_fact(difference.fact),
                difference.left,
                difference.right,
            )


def _variable_changes(
    before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> Iterator[EnvironmentChange]:
    for name in sorted({*before, *after}):
        is_in_both = name in before and name in after
        old = before.get(name)
        new = after.get(name)
        if is_in_both and (old is None or new is None or old == new):
            continue  # a name without a value says no more than that it is set
        standing = suspicion.of_variable(name)
        if old is None and new is None:
            standing = suspicion.NAME_ONLY
            old, new = ("set", None) if name in before else (None, "set")
        yield _change(ChangeArea.VARIABLES, name, standing, old, new)


def _mapping_changes(
    before: Mapping[str, str],
    after: Mapping[str, str],
    area: ChangeArea,
    standing_of: Callable[[str], SuspicionRow],
    place: str | None = None,
) -> Iterator[EnvironmentChange]:
    for name in sorted({*before, *after}):
        old = before.get(name)
        new = after.get(name)
        if old != new:
            yield _change(area, name, standing_of(name), old, new, place)


def _interpreter_changes(
    before: InterpreterSnapshot, after: InterpreterSnapshot, place: str | None
) -> Iterator[EnvironmentChange]:
    if "packages" not in before.unknown and "packages" not in after.unknown:
        yield from package_changes(before.packages, after.packages, place)
        yield from _mapping_changes(
            {f"start file {name}": hash_ for name, hash_ in before.start_files.items()},
            {f"start file {name}": hash_ for name, hash_ in after.start_files.items()},
            ChangeArea.PACKAGES,
            suspicion.of_fact,
            place,
        )
    if before.python != after.python:
        # It may explain why all packages changed; of two environments compared, it is no surprise.
        yield _change(
            ChangeArea.PACKAGES,
            "interpreter",
            suspicion.OTHER_PATH,
            before.python,
            after.python,
        )
    if before.version and after.version and before.version != after.version:
        standing = suspicion.of_fact("python")
        yield _change(ChangeArea.PACKAGES, "python", standing, before.version, after.version, place)


def _change(
    area: ChangeArea,
    subject: str,
    standing: SuspicionRow,
    before: str | None,
    after: str | None,
    place: str | None = None,
) -> EnvironmentChange:
    kind = ChangeKind.CHANGED
    if before is None:
        kind = ChangeKind.ADDED
    elif after is None:
        kind = ChangeKind.REMOVED
    return EnvironmentChange(
        area=area,
        subject=subject,
        kind=kind,
        suspicion=standing.suspicion,
        row=standing.row,
        before=before,
        after=after,
        place=place,
    )


def _unpaired(
    before: Snapshot, after: Snapshot, pairs: list[InterpreterPair]
) -> Iterator[EnvironmentChange]:
    standing = suspicion.of_fact("interpreter")
    for each in before.interpreters:
        if all(old is not each for old, _ in pairs):
            yield _change(ChangeArea.PACKAGES, "interpreter", standing, each.python, None)
    for each in after.interpreters:
        if all(new is not each for _, new in pairs):
            yield _change(ChangeArea.PACKAGES, "interpreter", standing, None, each.python)
