# SPDX-License-Identifier: Apache-2.0
"""Reads the job of a Buildkite build: the agent's variables, names made of them, how it ended."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.model.cause import diagnosed_causes
from ci_doctor.model.outcome import NO_VERDICT, Report, Verdict, worst

# --- the job of a Buildkite build, from the agent's variables, and names made from it ---

# "This value has a limit of 100 characters"
# (https://buildkite.com/docs/agent/cli/reference/annotate).
CONTEXT_LIMIT = 100


class JobEnvironment(Struct, frozen=True, kw_only=True):
    """One Buildkite job.

    `parallel_job` counts from 0 and is None outside a step with `parallelism`. `work` stands for what the pipeline gives this job to do
    (`job_work.work_of`), None if nobody asked.
    https://buildkite.com/docs/pipelines/configure/environment-variables
    """

    job_id: str
    build_id: str | None = None
    build_number: int | None = None
    build_url: str | None = None
    step_id: str | None = None
    step_key: str | None = None
    label: str | None = None
    command: str | None = None
    work: str | None = None
    retry_count: int = 0
    parallel_job: int | None = None
    parallel_count: int | None = None
    branch: str | None = None
    commit: str | None = None
    checkout: str | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "JobEnvironment | None":
        """The job of `environ`; None if this is not a Buildkite job."""
        job_id = environ.get("BUILDKITE_JOB_ID", "")
        if environ.get("BUILDKITE") != "true" or not job_id:
            return None
        return cls(
            job_id=job_id,
            build_id=_text(environ, "BUILDKITE_BUILD_ID"),
            build_number=_integer(environ, "BUILDKITE_BUILD_NUMBER"),
            build_url=_text(environ, "BUILDKITE_BUILD_URL"),
            step_id=_text(environ, "BUILDKITE_STEP_ID"),
            step_key=_text(environ, "BUILDKITE_STEP_KEY"),
            label=_text(environ, "BUILDKITE_LABEL"),
            command=_text(environ, "BUILDKITE_COMMAND"),
            retry_count=_integer(environ, "BUILDKITE_RETRY_COUNT") or 0,
            parallel_job=_integer(environ, "BUILDKITE_PARALLEL_JOB"),
            parallel_count=_integer(environ, "BUILDKITE_PARALLEL_JOB_COUNT"),
            branch=_text(environ, "BUILDKITE_BRANCH"),
            commit=_text(environ, "BUILDKITE_COMMIT"),
            checkout=_text(environ, "BUILDKITE_BUILD_CHECKOUT_PATH"),
        )

    def step_context(self) -> str:
        """The context of the job's annotation: at most 100 characters, the same on every retry.

        A build has one annotation per context, so a retried job overwrites its own. The digest of
        the label and the work separates the jobs of a build matrix: they share one step key. The
        step's id separates two steps without a key whose labels are the same. `step` keeps a step that is called `build` apart from the build's own annotation.
        https://buildkite.com/docs/pipelines/configure/workflows/build-matrix
        """
        parts = ["ci-doctor", "step", *self._place()]
        marks = [self.label or "", "" if self.step_key else self.step_id or "", self.work or ""]
        if any(marks):
            parts.append(_digest("".join(marks))[:6])
        return _shortened(":".join(parts))

    def sibling_context(self, *, same_command: bool) -> str:
        """A context for a job whose `step_context` another job of the same matrix uses.

        Its command tells it apart, or its own id if the commands are the same.
        """
        mark = self.job_id if same_command else self.command or ""
        return _shortened(f"{self.step_context()}:{_digest(mark)[:6]}")

    def verdict_key(self) -> str:
        """The meta-data key of the worst verdict: `ci-doctor:<step>[:<parallel job>]:verdict`."""
        return ":".join(["ci-doctor", *self._place(), "verdict"])

    def annotations_key(self) -> str:
        """The meta-data key of the contexts that the attempts of this job have annotated.

        It is the same on every retry, and another one for each job of a matrix that its label or
        its work tells apart.
        """
        own = "\0".join((self.label or "", self.step_id or "", *filter(None, [self.work])))
        return ":".join(["ci-doctor", *self._place(), "annotations", _digest(own)[:12]])

    def command_digest(self) -> str:
        """What stands for the job's command."""
        return _digest(self.command or "")[:12]

    def junit_artifact_name(self) -> str:
        """The JUnit file to upload.

        It has the job's id, from which the default pattern of the junit-annotate plugin makes a
        link.
        """
        return f"junit-{self.job_id}.xml"

    def attempts_artifact_name(self) -> str:
        """The JUnit file with every attempt, which `junit-*.xml` does not match."""
        return f"attempts-{self.job_id}.xml"

    def _place(self) -> list[str]:
        label = _slug(self.label) if self.label else ""
        # A label may be of any length, and one argument of the agent is not.
        step = _shortened(self.step_key or label or self.step_id or "step")
        return [step] if self.parallel_job is None else [step, str(self.parallel_job)]


def step_label(environ: Mapping[str, str]) -> str | None:
    """The label of this job's step; None outside a job, and for one of several parallel jobs.

    The label of a matrix holds its values, and that of a parallel job may hold its number.
    """
    job = JobEnvironment.from_environ(environ)
    return job.label if job is not None and job.parallel_job is None else None


def _text(environ: Mapping[str, str], name: str) -> str | None:
    """The agent sets some variables to nothing."""
    return environ.get(name) or None


def _integer(environ: Mapping[str, str], name: str) -> int | None:
    value = environ.get(name, "")
    return int(value) if value.isascii() and value.isdigit() else None


def _shortened(context: str) -> str:
    if len(context) <= CONTEXT_LIMIT:
        return context
    tail = f"~{_digest(context)[:12]}"
    return context[: CONTEXT_LIMIT - len(tail)] + tail


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-")


def _digest(text: str) -> str:
    encoded = text.encode(errors="surrogateescape")
    return hashlib.sha256(encoded).hexdigest()


# --- which builds may write what others trust: baselines in an archive, and caches ---


def is_default_branch_build(environ: Mapping[str, str]) -> tuple[bool, str]:
    """Whether this is a Buildkite build of the default branch and of no pull request; and why.

    The reason is a sentence. The variables are those that the agent sets
    (https://buildkite.com/docs/pipelines/configure/environment-variables). A job can set them
    itself: this keeps honest builds apart, and keeps nobody out. Write access to the directory, and
    the key of a cache, do.
    """
    if JobEnvironment.from_environ(environ) is None:
        return False, "this is no Buildkite job"
    # The agent sets "false" for a build of a branch. Nothing at all proves nothing.
    request = environ.get("BUILDKITE_PULL_REQUEST", "")
    if not request:
        return False, "it is unknown whether this is a pull request"
    if request != "false":
        return False, f"this is a build of pull request {request}"
    branch = environ.get("BUILDKITE_BRANCH", "")
    default = environ.get("BUILDKITE_PIPELINE_DEFAULT_BRANCH", "")
    # An agent may leave the default branch out; then no branch is it.
    if default and branch == default:
        return True, f"this is a build of the default branch {default}"
    unknown = "(unknown)"
    return False, f"branch {branch or unknown} is not the default branch {default or unknown}"


# --- how a job ended, and the one verdict that stands for it in the build's meta-data ---

# A time-out (timeout(1)) or a signal from outside ended the command, and no line of its log tells
# why. -1 stands for a signal that ended the command's own shell.
ENDED_FROM_OUTSIDE = frozenset({-1, 124, 129, 130, 131, 137, 143})


class JobEnd(Struct, frozen=True, kw_only=True):
    """What a hook at the end of a job knows of it.

    `command_status` is None if the command never ran. `failures` are the statuses, other than 0, of
    the command and of the hook that ran last.
    https://buildkite.com/docs/pipelines/configure/environment-variables
    """

    has_run: bool
    failures: tuple[int, ...] = ()
    is_cancelled: bool = False
    is_timed_out: bool = False
    command_status: int | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "JobEnd":
        """The end of the job of `environ`; the agent leaves out what did not happen."""
        command = _status(environ, "BUILDKITE_COMMAND_EXIT_STATUS")
        hook = _status(environ, "BUILDKITE_LAST_HOOK_EXIT_STATUS")
        return cls(
            has_run=command is not None,
            failures=tuple(status for status in (command, hook) if status),
            is_cancelled=environ.get("BUILDKITE_JOB_CANCELLED") == "true",
            is_timed_out=environ.get("BUILDKITE_JOB_TIMED_OUT") == "true",
            command_status=command,
        )


def explains(report: Report, status: int) -> bool:
    """Whether `report` is of a command that judged something, or failed itself, and gave `status`.

    So is that of `run --diagnose --exit-code-by-class` if it chose the status. What hands on the
    status of a command without a word about it explains nothing.
    """
    if report.exit_code != status or report.command == "diagnose":
        return False
    if report.verdict is not None or report.error is not None:
        return True
    return report.facts.get("exit_code", status) not in {status, None}


def worst_verdict(reports: Sequence[Report], end: JobEnd | None = None) -> str:
    """The most urgent verdict of a job; `end` is None while its command still runs.

    A failure that no report ends with is one that ci-doctor did not see: `failed`, or `infra` if
    its diagnosis says so. A job without a report has proven nothing.
    """
    verdicts = [str(each.verdict or NO_VERDICT) for each in reports if not _is_diagnosis(each)]
    if end is not None:
        verdicts += _of_the_end(reports, end)
    return str(worst(verdicts))


def _is_diagnosis(report: Report) -> bool:
    """Whether it judges nothing, and only says why something failed."""
    return report.verdict is None and report.error is None


def _of_the_end(reports: Sequence[Report], end: JobEnd) -> list[str]:
    if end.is_cancelled or end.is_timed_out:
        return [NO_VERDICT]
    if end.failures:
        # A report that only diagnoses may explain the status, and has no verdict to stand for it.
        judged = [each for each in reports if not _is_diagnosis(each)]
        if any(explains(each, status) for each in judged for status in end.failures):
            return []
        return [Verdict.INFRA if _lies_outside(reports, end) else Verdict.FAILED]
    return [] if end.has_run else [NO_VERDICT]


def _lies_outside(reports: Sequence[Report], end: JobEnd) -> bool:
    """Whether all that was diagnosed lies outside the change, and another run helps."""
    if not end.command_status or end.command_status in ENDED_FROM_OUTSIDE:
        return False
    status = end.command_status
    # The report that chose the status stands.
    causes = list(diagnosed_causes([each for each in reports if explains(each, status)] or reports))
    return bool(causes) and all(cause.may_be_retried for cause in causes)


def _status(environ: Mapping[str, str], name: str) -> int | None:
    # -1 stands for a command that a signal ended.
    try:
        return int(environ.get(name, ""))
    except ValueError:
        return None


# --- what a pipeline gives one job to do, which a retry of the job shares ---
# The jobs of a build matrix have one step and may have one label. Then only their commands, plugins,
# queues and variables differ. BUILDKITE_ENV_FILE holds a job's variables as Buildkite sent them, one a
# line, before any hook changed them (github.com/buildkite/agent, agent/job_runner.go).

_MOST_BYTES: Final = 4 * 1024 * 1024
_LINE: Final = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*)=")
# All others of Buildkite's own name the job, its attempt or its agent.
_OF_THE_STEP: Final = (b"BUILDKITE_COMMAND", b"BUILDKITE_PLUGINS", b"BUILDKITE_ARTIFACT_PATHS")
# The digest is published: nobody is to guess a password by it.
SECRET_NAME: Final = re.compile(rb"TOKEN|SECRET|PASS|KEY|CREDENTIAL|CONNECTION", re.IGNORECASE)
# A job runs on agents of the queue that its step names.
_QUEUE: Final = "BUILDKITE_AGENT_META_DATA_QUEUE"


def work_of(environ: Mapping[str, str]) -> str | None:
    """What stands for the work of the job of `environ`; None if its agent does not tell."""
    try:
        with Path(environ.get("BUILDKITE_ENV_FILE", "")).open("rb") as file:
            content = file.read(_MOST_BYTES)
    except (OSError, ValueError):
        return None
    lines = sorted(line for line in content.splitlines() if _belongs_to_the_step(line))
    if not lines:
        return None
    queue = environ.get(_QUEUE, "").encode(errors="surrogateescape")
    return hashlib.sha256(b"\n".join([queue, *lines])).hexdigest()[:16]


def _belongs_to_the_step(line: bytes) -> bool:
    match = _LINE.match(line)
    if match is None:
        return False
    name = match.group(1)
    if name.startswith(b"BUILDKITE"):
        return name in _OF_THE_STEP
    return SECRET_NAME.search(name) is None
