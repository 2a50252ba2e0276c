# SPDX-License-Identifier: Apache-2.0
"""Pure. What only one of two snapshots knows: nobody can say whether it differs."""

from collections.abc import Iterator

from ci_doctor.drift import suspicion
from ci_doctor.drift.change import ChangeArea, OneSided, Suspicion
from ci_doctor.drift.interpreter_pairs import interpreter_pairs
from ci_doctor.drift.package_changes import one_sided_packages
from ci_doctor.drift.snapshot import InterpreterSnapshot, Snapshot
from ci_doctor.identity.identity import Identity, differences


def one_sided_facts(before: Snapshot, after: Snapshot) -> Iterator[OneSided]:
    """Every fact that one of the two could not read, and the other could."""
    for difference in differences(before.machine, after.machine):
        if difference.knowledge:
            yield _one_sided_fact(difference.fact, before.machine, after.machine)
    for old, new in interpreter_pairs(before, after):
        yield from one_sided_packages(old.packages, new.packages)
        yield from _one_sided_interpreter(old, new)
    if (before.system_packages_unknown is None) != (after.system_packages_unknown is None):
        is_old = before.system_packages_unknown is not None
        yield OneSided(
            area=ChangeArea.SYSTEM,
            subject="system packages",
            suspicion=Suspicion.FAILURE,
            unknown_in="before" if is_old else "after",
            reason=before.system_packages_unknown or after.system_packages_unknown or "",
        )


def _one_sided_fact(name: str, before: Identity, after: Identity) -> OneSided:
    is_old = name in before.unknown
    unknown, known = (before, after) if is_old else (after, before)
    return OneSided(
        area=ChangeArea.MACHINE,
        subject=name,
        suspicion=suspicion.of_fact(name).suspicion,
        unknown_in="before" if is_old else "after",
        reason=unknown.unknown[name],
        known=known.facts.get(name),
    )


def _one_sided_interpreter(
    before: InterpreterSnapshot, after: InterpreterSnapshot
) -> Iterator[OneSided]:
    # What neither side knows of an interpreter may differ as well: nobody compared it.
    for what in sorted({*before.unknown} | {*after.unknown}):
        is_old = what in before.unknown
        reasons = before.unknown if is_old else after.unknown
        yield OneSided(
            area=ChangeArea.PACKAGES,
            subject=f"{what} of {after.python}",
            suspicion=Suspicion.FAILURE,
            unknown_in="before" if is_old else "after",
            reason=reasons[what],
        )
