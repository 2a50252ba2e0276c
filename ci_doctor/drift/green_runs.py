# SPDX-License-Identifier: Apache-2.0
"""Pure. The protocol by which the last green run of a step is asked for.

A source is a directory of reports today. A history, artifacts or a store need one class each.
"""

from typing import Protocol

from msgspec import Struct

from ci_doctor.drift.snapshot import Snapshot


class GreenRun(Struct, frozen=True, kw_only=True):
    """The environment of a green run. `source` says where it is from, for a reader."""

    snapshot: Snapshot
    source: str


class NoGreenRun(Struct, frozen=True, kw_only=True):
    """There is none to compare with; `reason` is one clause without a full stop."""

    reason: str


class GreenRuns(Protocol):
    """A source of green runs."""

    def latest(self, step: str | None) -> GreenRun | NoGreenRun:
        """The newest green run of `step` (a step's key; None: of any). Raises nothing."""


def label(run: GreenRun) -> str:
    """When it was, and which build: `2026-11-20, build 41`."""
    day = run.snapshot.taken_at[:10]
    build = run.snapshot.about.build
    if build is None:
        return day
    return f"{day}, build {build}"
