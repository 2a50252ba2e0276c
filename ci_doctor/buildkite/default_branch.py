# SPDX-License-Identifier: Apache-2.0
"""Pure. Which builds may write what others trust: baselines in an archive, and caches."""

from collections.abc import Mapping

from ci_doctor.buildkite.job import JobEnvironment


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
