# SPDX-License-Identifier: Apache-2.0
"""Which builds may write into an archive that others trust. Pure."""

from collections.abc import Mapping

from ci_doctor.buildkite.job import JobEnvironment


def trusted(environ: Mapping[str, str]) -> tuple[bool, str]:
    """Whether this is a Buildkite build of the default branch and of no pull request; and why.

    The reason is a sentence. The variables are those that the agent sets
    (https://buildkite.com/docs/pipelines/configure/environment-variables). A job can set them
    itself: this keeps honest builds apart, and keeps nobody out. Write access to the directory
    does.
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
