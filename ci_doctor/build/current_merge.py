# SPDX-License-Identifier: Apache-2.0
"""Acts on the agent and the network: merges this build from what its other jobs have uploaded."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from ci_doctor.build.api_job import ApiJob
from ci_doctor.build.current import download_current
from ci_doctor.build.own_step import is_own_api_job
from ci_doctor.build.rest import KnownJobs, read_jobs
from ci_doctor.build.run import BuildOutcome, MergeRequest, merge_build
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.errors import UsageError
from ci_doctor.system.files.own_directory import own_directory


def merge_current(environ: Mapping[str, str], expect: tuple[str, ...] = ()) -> BuildOutcome:
    """The build of the job of `environ`, without this job.

    What the agent and the REST API could not do is a finding. Raises UsageError outside a Buildkite job.
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
        return _merged(environ, Path(folder), job, expect)


def _merged(
    environ: Mapping[str, str], folder: Path, job: JobEnvironment, expect: tuple[str, ...]
) -> BuildOutcome:
    current = download_current(environ, folder)
    known = read_jobs(environ)
    request = MergeRequest(
        paths=(current.directory,),
        expect=expect,
        api_jobs=_other_jobs(known, job),
        own_job=job.job_id,
        api_problem=known.problem,
        problems=current.problems,
    )
    return merge_build(request)


def _other_jobs(known: KnownJobs, job: JobEnvironment) -> dict[str, ApiJob] | None:
    """The jobs of other steps by their ids; None if the API told none."""
    if known.jobs is None:
        return None
    own = {each.job for each in known.jobs if is_own_api_job(each, job)}
    return {each.job: each for each in known.jobs if each.job not in own}
