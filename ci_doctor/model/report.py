# SPDX-License-Identifier: Apache-2.0
"""The one thing that every command makes."""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from ci_doctor.model.finding import Finding
from ci_doctor.model.verdict import Verdict

# History: 1 = first form (2026-11).
SCHEMA = "ci-doctor/report/1"


class Outcome(StrEnum):
    """How one case of a report ended, in JUnit's words: `failed` is the change's fault, `error` is anything else."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


class Case(Struct, frozen=True, kw_only=True):
    """One checked thing (a request, a pin, a shim), for readers that count: JUnit and Buildkite Test Engine.

    `group` and `name` together identify it from run to run. `detail` may be long.
    """

    group: str
    name: str
    outcome: Outcome
    message: str | None = None
    detail: str | None = None
    duration_s: float | None = None


class Attempt(Struct, frozen=True, kw_only=True):
    """One try at gathering evidence: a server start, a test run.

    `outcome` is a short phrase ("answered 100/100", "died before ready: exit code 3"); `log` is a path.
    """

    name: str
    outcome: str
    ok: bool
    duration_s: float
    log: str | None = None
    facts: dict[str, Any] = {}


class Attachment(Struct, frozen=True, kw_only=True):
    """A file that proves something; `path` is relative to the report directory where it lies inside it."""

    path: str
    title: str
    media_type: str = "text/plain"


class Failure(Struct, frozen=True, kw_only=True):
    """Why there is no verdict: what happened, and what to do next."""

    message: str
    hint: str | None = None
    detail: str | None = None


class Section(Struct, frozen=True, kw_only=True):
    """A titled block of short lines, in the order to be read: what a person wants to see beside the findings."""

    title: str
    lines: tuple[str, ...]


class Report(Struct, frozen=True, kw_only=True):
    """What was done, what it means, and what proves it.

    `started_at` is RFC 3339 in UTC, `duration_s` seconds of wall clock. `verdict` is None exactly where `error` is set.
    `reproduce` is a shell command line. `facts` are JSON values by name.
    """

    schema: Annotated[str, Meta(pattern="^ci-doctor/report/1$")] = SCHEMA
    tool_version: str
    command: str
    argv: tuple[str, ...]
    started_at: str
    duration_s: float
    verdict: Verdict | None
    error: Failure | None = None
    exit_code: int
    summary: str
    reproduce: str | None = None
    findings: tuple[Finding, ...] = ()
    sections: tuple[Section, ...] = ()
    facts: dict[str, Any] = {}
    cases: tuple[Case, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    attachments: tuple[Attachment, ...] = ()
