# SPDX-License-Identifier: Apache-2.0
"""Decides which builds may write into an archive that others believe. Pure."""

from collections.abc import Mapping

from ci_doctor.buildkite.job import JobEnvironment


def trusted(environ: Mapping[str, str]) -> tuple[bool, str]:
    """Whether this is a build of the default branch, and no pull request's, on Buildkite; and why, as a sentence.

    The variables are those that the agent sets (https://buildkite.com/docs/pipelines/configure/environment-variables). A
    job can set them itself: this keeps honest builds apart, it keeps nobody out. Who may write the directory does.
    """
    if JobEnvironment.from_environ(environ) is None:
        return False, "this is no Buildkite job"
    branch, default = (
        environ.get("BUILDKITE_BRANCH", ""),
        environ.get("BUILDKITE_PIPELINE_DEFAULT_BRANCH", ""),
    )
    request = environ.get("BUILDKITE_PULL_REQUEST", "")
    if request != "false":
        return (
            False,
            f"this is a build of pull request {request}"
            if request
            else "it is not said whether this is a pull request",
        )
    if not default or branch != default:
        return (
            False,
            f"branch {branch or '(unknown)'} is not the default branch {default or '(unknown)'}",
        )
    return True, f"this is a build of the default branch {default}"


def build_of(environ: Mapping[str, str]) -> str:
    """The build in words: `build 42 of main at 0123456789ab, https://…`, or where it was not made on Buildkite `a local run`."""
    job = JobEnvironment.from_environ(environ)
    if job is None:
        return "a local run"
    text = f"build {job.build_number}" if job.build_number is not None else "a build"
    text += f" of {job.branch}" if job.branch else ""
    text += f" at {job.commit[:12]}" if job.commit else ""
    return f"{text}, {job.build_url}" if job.build_url else text
