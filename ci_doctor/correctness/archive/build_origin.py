# SPDX-License-Identifier: Apache-2.0
"""Reads git's files, `run.json` and the name of the host: which build made the starts of a run.

So independent builds can be counted.
"""

import os
import re
from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.correctness.evidence.run_identity import read_run
from ci_doctor.correctness.settings import Arm, ExperimentPlan
from ci_doctor.errors import UsageError
from ci_doctor.identity.libraries import commit_of

# BUILDKITE_COMMIT may also be `HEAD`, or a branch, of a build that was started by hand.
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class BuildOrigin(Struct, frozen=True, kw_only=True):
    """The build that made archived starts.

    `id` is common to the starts of one build and to no others: Buildkite's id of the build, or host
    and run elsewhere. Jobs of one build and their retries are one build. `commit` is the build's,
    and `baseline_commit` that of the repository in which the baseline's server ran; both are full
    hexadecimal digits, or None if unknown.
    """

    id: str
    number: int | None = None
    job: str | None = None
    commit: str | None = None
    baseline_commit: str | None = None


def build_origin(
    job: JobEnvironment | None, run: str, commit: str | None, baseline_commit: str | None
) -> BuildOrigin:
    """The origin of starts that this `job` made.

    `run` identifies a run outside Buildkite. `commit` is the one that is checked out; the job's own
    goes before it.
    """
    baseline_commit = _hexadecimal(baseline_commit)
    if job is None:
        commit = _hexadecimal(commit)
        return BuildOrigin(id=run, commit=commit, baseline_commit=baseline_commit)
    return BuildOrigin(
        id=job.build_id or job.job_id,
        number=job.build_number,
        job=job.job_id,
        commit=_hexadecimal(job.commit) or _hexadecimal(commit),
        baseline_commit=baseline_commit,
    )


def _hexadecimal(commit: str | None) -> str | None:
    if commit is None:
        return None
    return commit if _COMMIT.fullmatch(commit) else None


def build_of(environ: Mapping[str, str]) -> str:
    """The build in words: `build 42 of main at 0123456789ab, https://…`.

    Outside Buildkite it is `a local run`.
    """
    job = JobEnvironment.from_environ(environ)
    if job is None:
        return "a local run"
    text = f"build {job.build_number}" if job.build_number is not None else "a build"
    if job.branch:
        text += f" of {job.branch}"
    if job.commit:
        text += f" at {job.commit[:12]}"
    if job.build_url:
        text += f", {job.build_url}"
    return text


def origin_of_run(plan: ExperimentPlan, commit: str | None) -> BuildOrigin | None:
    """The build that makes the starts of `plan`; `commit` is the one that is checked out.

    A resumed run is the same as before. None if the run is not described in the report directory:
    a start of an unknown build is better than a run that ends with an error after its verdict.
    """
    job = JobEnvironment.from_environ(plan.environment)
    try:
        started_at = read_run(plan.directory).started_at
    except UsageError:
        return None
    run = f"{os.uname().nodename} {started_at}"
    return build_origin(job, run, commit, _baseline_commit(plan))


def _baseline_commit(plan: ExperimentPlan) -> str | None:
    """The commit of the repository in which the baseline's answering service runs."""
    arm = plan.arms[Arm.BASELINE]
    spec = arm.specs[arm.names[-1]]
    return commit_of((plan.services_directory / (spec.cwd or "")).absolute())
