# SPDX-License-Identifier: Apache-2.0
"""Reads git's files, `run.json` and the name of the host: which build made the starts of a run.

So independent builds can be counted.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

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
    checked_out = _hexadecimal(commit)
    job_fields: dict[str, Any] = {"id": run, "commit": checked_out}
    if job is not None:
        job_fields = {
            "id": job.build_id or job.job_id,
            "number": job.build_number,
            "job": job.job_id,
            "commit": _hexadecimal(job.commit) or checked_out,
        }
    return BuildOrigin(baseline_commit=_hexadecimal(baseline_commit), **job_fields)


def _hexadecimal(commit: str | None) -> str | None:
    return commit if commit is not None and _COMMIT.fullmatch(commit) else None


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
    # The commit of the repository in which the baseline's answering service runs.
    arm = plan.arms[Arm.BASELINE]
    place = plan.services_directory / (arm.specs[arm.names[-1]].cwd or "")
    run = f"{os.uname().nodename} {started_at}"
    return build_origin(job, run, commit, commit_of(place.absolute()))
