# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: adds to what `ci-doctor doctor` says what changed since a green run."""

import os
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.checks.context import CheckContext
from ci_doctor.drift.green import latest_green, since_green
from ci_doctor.drift.reading import SnapshotRequest, take_snapshot
from ci_doctor.model.facts.doctor import DoctorFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.session.session import Session


def with_changes(outcome: Outcome, session: Session, context: CheckContext, path: Path) -> Outcome:
    """`outcome` with a table of what changed since the green run at `path`, or why that is unknown."""
    request = SnapshotRequest(
        pythons=[target.python for target in context.targets],
        environ=dict(os.environ),
        cwd=context.cwd,
        about=session.about,
        redactor=session.redactor,
    )
    now = take_snapshot(request).snapshot
    changes = since_green(latest_green(path, now.about.step), now)
    facts = outcome.facts
    if isinstance(facts, DoctorFacts):
        facts = replace(facts, since_green=changes.facts)
    return replace(outcome, tables=(*outcome.tables, changes.table), facts=facts)
