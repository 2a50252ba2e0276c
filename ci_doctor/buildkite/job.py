# SPDX-License-Identifier: Apache-2.0
"""Pure. The job of a Buildkite build, from the agent's variables, and names made from it."""

import hashlib
import re
from collections.abc import Mapping

from msgspec import Struct

# "This value has a limit of 100 characters"
# (https://buildkite.com/docs/agent/cli/reference/annotate).
CONTEXT_LIMIT = 100


class JobEnvironment(Struct, frozen=True, kw_only=True):
    """One Buildkite job.

    `parallel_job` counts from 0 and is None outside a step with `parallelism`; `timeout_minutes` is
    None if the step has no timeout. `work` stands for what the pipeline gives this job to do
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
    timeout_minutes: int | None = None
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
            timeout_minutes=_integer(environ, "BUILDKITE_TIMEOUT"),
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
    # BUILDKITE_TIMEOUT is the word "false" if a step has none.
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
