# SPDX-License-Identifier: Apache-2.0
"""Pure. What a command hands over: its outcome, and what it was made from and when."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from ci_doctor.model.about import About
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Attachment, Attempt, Case, Failure
from ci_doctor.model.table import Table
from ci_doctor.model.verdict import Verdict

# History: 1 = first form (2026-11). 2 = verdict `failed`; `tables` in place of `sections`; `about`;
# `error.kind`; a verdict may stand beside an error, and be null without one (2026-11).
SCHEMA = "ci-doctor/report/2"


class Report(Struct, frozen=True, kw_only=True):
    """What was done, what it means, and what proves it.

    `started_at` is RFC 3339 in UTC, `duration_s` seconds of wall clock. `verdict` is None if
    nothing was judged, or if `error` says why nothing could be. `reproduce` is a shell command
    line. `facts` are the command's own (docs/report.md), with their `version`.
    """

    schema: Annotated[str, Meta(pattern="^ci-doctor/report/2$")] = SCHEMA
    tool_version: str
    command: str
    argv: tuple[str, ...]
    started_at: str
    duration_s: float
    about: About = About()
    verdict: Verdict | None
    error: Failure | None = None
    exit_code: int
    summary: str
    reproduce: str | None = None
    findings: tuple[Finding, ...] = ()
    tables: tuple[Table, ...] = ()
    facts: dict[str, Any] = {}
    cases: tuple[Case, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    attachments: tuple[Attachment, ...] = ()
