# SPDX-License-Identifier: Apache-2.0
"""Pure. What every room returns. Nothing here knows a directory, a terminal or an exit code."""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from ci_doctor.model.facts import Facts
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.table import Scalar, Table
from ci_doctor.model.verdict import Verdict, is_green

# --- what a report is about: the build, the job, the commit and the machine ---


class About(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where and on what a command ran. What is unknown is absent.

    `build` is the build's number, `step` the step's key, `parallel_index` counts from 0, `attempt`
    counts the job's retries from 0, `repository` is the address of its pages, `gpus` are the names of the machine's GPUs.
    https://buildkite.com/docs/pipelines/configure/environment-variables
    """

    pipeline: str | None = None
    build: int | None = None
    build_url: str | None = None
    job: str | None = None
    step: str | None = None
    parallel_index: int | None = None
    attempt: int | None = None
    commit: str | None = None
    branch: str | None = None
    repository: str | None = None
    agent: str | None = None
    queue: str | None = None
    gpus: tuple[str, ...] = ()


SEPARATOR = "::"


def junit_identity(node_id: str) -> tuple[str, str]:
    """The class name and the name of a pytest node id: `tests/test_a.py::TestX::test_b[1]`.

    They are `tests.test_a.TestX` and `test_b[1]` (`mangle_test_address` of _pytest/junitxml.py). An
    id without `::` has no class name.
    """
    # A parameter may hold `::` and `/`, and ends the id.
    plain, bracket, parameters = node_id.partition("[")
    file, *names = plain.split(SEPARATOR)
    if not names:
        return "", node_id
    classes = names[:-1]
    return ".".join([dotted(file), *classes]), f"{names[-1]}{bracket}{parameters}"


def dotted(file: str) -> str:
    """`tests.test_a` for `tests/test_a.py`, `docs.guide.rst` for `docs/guide.rst`."""
    return file.removesuffix(".py").replace("/", ".")


class CaseOutcome(StrEnum):
    """How one case ended, in JUnit's words.

    `failed` is the change's fault, `error` any other failure.
    """

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


class CaseAttempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of several executions of a case; `started_at` is RFC 3339 in UTC.

    `job` is the id of the Buildkite job in which it ran, if that is not the report's own.
    """

    outcome: CaseOutcome
    message: str | None = None
    detail: str | None = None
    duration_s: float | None = None
    started_at: str | None = None
    job: str | None = None


class Case(Struct, frozen=True, kw_only=True, gc=False):
    """One checked thing (a request, a pin, a shim), for readers that count test cases.

    Those are JUnit's readers and Buildkite Test Engine. `group` and `name` together identify it
    from run to run. `detail` may be long. `outcome` is the final one. `attempts` are all its
    executions from the first one on; empty if there was one. `kind` is its type in JUnit, if that
    is not the outcome.
    """

    group: str
    name: str
    outcome: CaseOutcome
    message: str | None = None
    detail: str | None = None
    duration_s: float | None = None
    attempts: tuple[CaseAttempt, ...] = ()
    kind: str | UnsetType = UNSET


class Attempt(Struct, frozen=True, kw_only=True):
    """One try at gathering evidence: a server start, a test run.

    `outcome` is a short phrase ("answered 100/100", "died before ready: exit code 3"); `log` is a
    path.
    """

    name: str
    outcome: str
    ok: bool
    duration_s: float
    log: str | None = None
    facts: dict[str, Scalar] = {}


class Attachment(Struct, frozen=True, kw_only=True):
    """A file that proves something.

    `path` is relative to the report directory if the file lies inside it.
    """

    path: str
    title: str
    media_type: str = "text/plain"


class ErrorKind(StrEnum):
    """What sort of error ended a command; it decides the exit code if there is no verdict."""

    USAGE = "usage"
    BUG = "bug"
    PREPARATION = "preparation"
    INFRA = "infra"
    SIGINT = "sigint"
    SIGTERM = "sigterm"
    SIGHUP = "sighup"
    SIGQUIT = "sigquit"


def signal_kind(name: str) -> ErrorKind:
    """The kind of an error that the signal `name` is: `SIGINT`, `SIGTERM`, `SIGHUP`, `SIGQUIT`.

    Raises KeyError for another one, which ends no command in order.
    """
    return ErrorKind[name]


class Failure(Struct, frozen=True, kw_only=True):
    """Why the command did not come to its end: what happened, and what to do next.

    `kind` is None in reports of schema 1, and if the command's status speaks for itself.
    """

    message: str
    hint: str | None = None
    detail: str | None = None
    kind: ErrorKind | None = None


def concluded(
    verdict: Verdict | None, summary: str, findings: tuple[Finding, ...]
) -> tuple[Verdict | None, str]:
    """`verdict` and `summary`; `failed` if it would pass beside a finding of severity error.

    The first such finding becomes part of the summary then.
    """
    # A gate must never fail open.
    if not is_green(verdict):
        return verdict, summary
    for finding in findings:
        if finding.severity is Severity.ERROR:
            return Verdict.FAILED, f"{summary}; but {finding.summary}"
    return verdict, summary


class Outcome(Struct, frozen=True, kw_only=True):
    """What a room concludes, and what it rests on.

    `verdict` is None if nothing was judged, or if an error ended the command before anything could
    be. `error` stands beside a verdict only if that verdict is the error's own (`infra`, `failed`).
    `command_status` is the exit status of a command that the user gave (the client of `launch`);
    the session hands it on in place of the verdict's exit code.
    `reproduce` is a shell command line; None stands for the command line that was typed.
    """

    verdict: Verdict | None
    summary: str
    error: Failure | None = None
    findings: tuple[Finding, ...] = ()
    tables: tuple[Table, ...] = ()
    facts: Facts = field(default_factory=Facts)
    cases: tuple[Case, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    reproduce: str | None = None
    command_status: int | None = None


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
