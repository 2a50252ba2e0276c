# SPDX-License-Identifier: Apache-2.0
"""Pure. A drift and a snapshot as facts, for programs."""

from ci_doctor.drift.change import Drift, EnvironmentChange, OneSided
from ci_doctor.drift.snapshot import Snapshot
from ci_doctor.model.facts.drift import (
    DriftFacts,
    EnvironmentChangeFact,
    FileChangeFact,
    OneSidedFact,
    SnapshotFacts,
)


def drift_facts(drift: Drift, before: str, after: str) -> DriftFacts:
    """Everything that differs; `before` and `after` say where the snapshots are from."""
    return DriftFacts(
        before=before,
        after=after,
        contents_compared=drift.contents_compared,
        changes=tuple(_change(each) for each in drift.changes),
        one_sided=tuple(_one_sided(each) for each in drift.one_sided),
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


def _change(change: EnvironmentChange) -> EnvironmentChangeFact:
    files = [
        FileChangeFact(path=each.path, before=each.before, after=each.after)
        for each in change.files
    ]
    return EnvironmentChangeFact(
        area=change.area,
        subject=change.subject,
        kind=change.kind,
        suspicion=change.suspicion.name.lower(),
        before=change.before,
        after=change.after,
        address=change.address,
        interpreter=change.place,
        went_back=change.went_back,
        files=tuple(files),
    )


def _one_sided(each: OneSided) -> OneSidedFact:
    return OneSidedFact(
        area=each.area,
        subject=each.subject,
        suspicion=each.suspicion.name.lower(),
        unknown_in=each.unknown_in,
        reason=each.reason,
        known=each.known,
    )
