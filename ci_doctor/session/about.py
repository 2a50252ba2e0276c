# SPDX-License-Identifier: Apache-2.0
"""Reads the environment, git and the driver's files: what a report is about."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.git import head, origin
from ci_doctor.machine.gpus import proc_gpus
from ci_doctor.model.about import About
from ci_doctor.session.web_address import web_address


def read_about(environ: Mapping[str, str], directory: Path) -> About:
    """The build, the job, the commit of `directory` and the GPUs. What is unknown is left out."""
    commit, branch = _commit_and_branch(environ, directory)

    return About(
        pipeline=environ.get("BUILDKITE_PIPELINE_SLUG") or None,
        build=_number(environ, "BUILDKITE_BUILD_NUMBER"),
        build_url=environ.get("BUILDKITE_BUILD_URL") or None,
        job=environ.get("BUILDKITE_JOB_ID") or None,
        step=environ.get("BUILDKITE_STEP_KEY") or None,
        parallel_index=_number(environ, "BUILDKITE_PARALLEL_JOB"),
        attempt=_number(environ, "BUILDKITE_RETRY_COUNT"),
        commit=commit,
        branch=branch,
        repository=_repository(environ, directory),
        agent=environ.get("BUILDKITE_AGENT_NAME") or None,
        queue=environ.get("BUILDKITE_AGENT_META_DATA_QUEUE") or None,
        gpus=tuple(gpu.name for gpu in proc_gpus()),
    )


def _commit_and_branch(
    environ: Mapping[str, str], directory: Path
) -> tuple[str | None, str | None]:
    commit = environ.get("BUILDKITE_COMMIT", "")
    branch = environ.get("BUILDKITE_BRANCH", "")
    # The variable holds "HEAD" if a build was made without a commit of its own.
    if commit in {"", "HEAD"}:
        checkout = head(directory)
        if checkout is None:
            return None, branch or None
        commit = checkout.commit
        # The build's branch comes first: the agent checks out a commit, on no branch.
        branch = branch or checkout.branch or ""
    return commit or None, branch or None


def _repository(environ: Mapping[str, str], directory: Path) -> str | None:
    remote = environ.get("BUILDKITE_REPO") or origin(directory)
    if not remote:
        return None
    return web_address(remote)


def _number(environ: Mapping[str, str], name: str) -> int | None:
    value = environ.get(name, "")
    # isdigit() alone takes characters that int() refuses, such as a superscript two.
    if value.isascii() and value.isdigit():
        return int(value)
    return None


def working_directory() -> Path:
    """The working directory; the root if it has been deleted under us: the report must come."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")
