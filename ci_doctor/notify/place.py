# SPDX-License-Identifier: Apache-2.0
"""Pure. Which step of which build a message is about, from the variables of Buildkite or GitHub Actions."""

from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.buildkite.job import JobEnvironment


class NotifiedPlace(Struct, frozen=True, kw_only=True):
    """Where a step runs.

    step: what a reader calls it. identity: the same for each attempt of the step, and another one
    for any other step. pipeline: what the build's own message is kept by. url: of the job.
    """

    step: str
    identity: str
    pipeline: str
    url: str | None = None


def place_of(environ: Mapping[str, str], step: str | None = None) -> NotifiedPlace:
    """The place of this job; `step` is a name that a person gave it, which tells apart the jobs of a matrix."""
    job = JobEnvironment.from_environ(environ)
    if job is not None:
        pipeline = f"buildkite/{environ.get('BUILDKITE_PIPELINE_SLUG', '')}"
        name = job.label or job.step_key or environ.get("BUILDKITE_PIPELINE_SLUG") or "step"
        url = f"{job.build_url}#{job.job_id}" if job.build_url else None
        return _place(pipeline, job.step_context(), name, step, url)
    if environ.get("GITHUB_ACTIONS") == "true":
        pipeline = f"github/{environ.get('GITHUB_WORKFLOW', '')}"
        name = environ.get("GITHUB_JOB") or "job"
        return _place(pipeline, name, name, step, _run_url(environ))
    return _place("local", "step", "ci-doctor", step, None)


def _place(pipeline: str, own: str, name: str, step: str | None, url: str | None) -> NotifiedPlace:
    identity = f"{pipeline}/step/{own}"
    if step:
        identity = f"{identity}/{step}"
    return NotifiedPlace(step=step or name, identity=identity, pipeline=pipeline, url=url)


def _run_url(environ: Mapping[str, str]) -> str | None:
    """The page of a run (https://docs.github.com/actions/reference/variables-reference)."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    server, repository, run = (environ.get(name, "") for name in names)
    if not server or not repository or not run:
        return None
    return f"{server}/{repository}/actions/runs/{run}"
