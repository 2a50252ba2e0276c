# SPDX-License-Identifier: Apache-2.0
"""Makes snapshots as values: valid by default, with what a test is about."""

from collections.abc import Mapping

from ci_doctor.drift.snapshot import InterpreterSnapshot, PackageSnapshot, Snapshot
from ci_doctor.identity.identity import Identity
from ci_doctor.model.outcome import About


def a_snapshot(
    packages: Mapping[str, PackageSnapshot | str] | None = None,
    *,
    facts: Mapping[str, str] | None = None,
    unknown: Mapping[str, str] | None = None,
    variables: Mapping[str, str | None] | None = None,
    system: Mapping[str, str] | None = None,
    about: About | None = None,
    taken_at: str = "2026-11-20T08:00:00.000Z",
    has_contents: bool = True,
) -> Snapshot:
    """A snapshot of one interpreter; a package that is a text has this version."""
    complete = {
        name: each if isinstance(each, PackageSnapshot) else PackageSnapshot(version=each)
        for name, each in (packages or {}).items()
    }
    interpreter = InterpreterSnapshot(
        python="./.venv/bin/python", version="cpython 3.12.4", packages=complete
    )
    return Snapshot(
        tool_version="1",
        taken_at=taken_at,
        about=about or About(),
        has_contents=has_contents,
        machine=Identity.of(facts or {}, unknown or {}),
        variables=dict(variables or {}),
        interpreters=(interpreter,),
        system_packages=dict(system or {}),
    )
