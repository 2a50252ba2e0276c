# SPDX-License-Identifier: Apache-2.0
"""Acts on the agent and the network: merges this build from what its other jobs have uploaded."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.build.api_job import ApiJob
from ci_doctor.build.current import download_current
from ci_doctor.build.own_step import is_own_api_job
from ci_doctor.build.rest import KnownJobs, read_jobs
from ci_doctor.build.run import BuildOutcome, MergeRequest, merge_build
from ci_doctor.buildkite.api_time import ApiTime
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.errors import UsageError
from ci_doctor.system.files.own_directory import own_directory


def merge_current(
    environ: Mapping[str, str], expect: tuple[str, ...] = (), *, api_time: ApiTime | None = None
) -> BuildOutcome:
    """The build of the job of `environ`, without this job.

    api_time: what is left of it in this process; without it, for the job. What the agent and the REST API could not do is a finding. Raises UsageError outside a Buildkite job.
    """
    job = JobEnvironment.from_environ(environ)
    if job is None:
        raise UsageError(
            "this is not a Buildkite job, so there is no current build",
            hint="download the artifacts of a build, and name their folder",
        )
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(own_directory("build"))
        except OSError as error:
            problem = f"there is no place to download to: {error.strerror or error}"
            return merge_build(MergeRequest(paths=(), expect=expect, problems=(problem,)))
        request = _request(environ, Path(folder), job, api_time or ApiTime.of_job(environ))
        return merge_build(replace(request, expect=expect))


def _request(
    environ: Mapping[str, str], folder: Path, job: JobEnvironment, api_time: ApiTime
) -> MergeRequest:
    current = download_current(environ, folder, api_time=api_time)
    known = read_jobs(environ, api_time=api_time)
    return MergeRequest(
        paths=(current.directory,),
        api_jobs=_other_jobs(known, job),
        own_job=job.job_id,
        api_problem=known.problem,
        problems=current.problems,
    )


def _other_jobs(known: KnownJobs, job: JobEnvironment) -> dict[str, ApiJob] | None:
    """The jobs of other steps by their ids; None if the API told none."""
    if known.jobs is None:
        return None
    own = {each.job for each in known.jobs if is_own_api_job(each, job)}
    return {each.job: each for each in known.jobs if each.job not in own}
