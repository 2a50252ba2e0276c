# SPDX-License-Identifier: Apache-2.0
"""The job that we run in, read from the variables that buildkite-agent sets, and the names that follow from it."""

import hashlib
import re
from collections.abc import Mapping

from msgspec import Struct

# https://buildkite.com/docs/agent/cli/reference/annotate: "This value has a limit of 100 characters".
CONTEXT_LIMIT = 100


class JobEnvironment(Struct, frozen=True, kw_only=True):
    """One Buildkite job.

    `parallel_job` counts from 0 and is None outside a step with `parallelism`; `timeout_minutes` is None where the step
    has no timeout; `has_job_api` says that `buildkite-agent env set` has a socket to talk to.
    https://buildkite.com/docs/pipelines/configure/environment-variables
    """

    job_id: str
    build_id: str | None = None
    build_number: int | None = None
    build_url: str | None = None
    step_id: str | None = None
    step_key: str | None = None
    label: str | None = None
    retry_count: int = 0
    parallel_job: int | None = None
    parallel_count: int | None = None
    timeout_minutes: int | None = None
    branch: str | None = None
    commit: str | None = None
    checkout: str | None = None
    has_job_api: bool = False

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "JobEnvironment | None":
        """Read the job from `environ`; None where this is not a Buildkite job."""
        job_id = environ.get("BUILDKITE_JOB_ID", "")
        if environ.get("BUILDKITE") != "true" or not job_id:
            return None
        return cls(
            job_id=job_id,
            build_id=environ.get("BUILDKITE_BUILD_ID") or None,
            build_number=_integer(environ, "BUILDKITE_BUILD_NUMBER"),
            build_url=environ.get("BUILDKITE_BUILD_URL") or None,
            step_id=environ.get("BUILDKITE_STEP_ID") or None,
            step_key=environ.get("BUILDKITE_STEP_KEY") or None,
            label=environ.get("BUILDKITE_LABEL") or None,
            retry_count=_integer(environ, "BUILDKITE_RETRY_COUNT") or 0,
            parallel_job=_integer(environ, "BUILDKITE_PARALLEL_JOB"),
            parallel_count=_integer(environ, "BUILDKITE_PARALLEL_JOB_COUNT"),
            timeout_minutes=_integer(environ, "BUILDKITE_TIMEOUT"),
            branch=environ.get("BUILDKITE_BRANCH") or None,
            commit=environ.get("BUILDKITE_COMMIT") or None,
            checkout=environ.get("BUILDKITE_BUILD_CHECKOUT_PATH") or None,
            has_job_api=bool(environ.get("BUILDKITE_AGENT_JOB_API_SOCKET")),
        )

    def annotation_context(self, command: str) -> str:
        """Name the annotation of `command` in this job: at most 100 characters, the same on every retry of the job.

        A build has one annotation per context, so a retried job overwrites its own. The digest of the label keeps the
        jobs of a build matrix apart: they share one step key, and their labels hold the matrix values.
        https://buildkite.com/docs/pipelines/configure/workflows/build-matrix
        """
        parts = ["ci-doctor", *self._place(), _slug(command)]
        if self.label:
            parts.append(_digest(self.label)[:6])
        context = ":".join(parts)
        if len(context) <= CONTEXT_LIMIT:
            return context
        tail = f"~{_digest(context)[:12]}"
        return context[: CONTEXT_LIMIT - len(tail)] + tail

    def verdict_key(self) -> str:
        """Name the build meta-data that holds the worst verdict of this job: `ci-doctor:<step>[:<parallel job>]:verdict`."""
        return ":".join(["ci-doctor", *self._place(), "verdict"])

    def junit_artifact_name(self) -> str:
        """Name the JUnit file to upload: by the job's id, from which junit-annotate's default pattern makes a link."""
        return f"junit-{self.job_id}.xml"

    def _place(self) -> list[str]:
        step = self.step_key or (self.label and _slug(self.label)) or self.step_id or "step"
        return [step] if self.parallel_job is None else [step, str(self.parallel_job)]


def _integer(environ: Mapping[str, str], name: str) -> int | None:
    # BUILDKITE_TIMEOUT is the word "false" where a step has none.
    value = environ.get(name, "")
    return int(value) if value.isascii() and value.isdigit() else None


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
