# SPDX-License-Identifier: Apache-2.0
"""Reads the environment, git and the driver's files: what a report is about."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ci_doctor.git import head, origin
from ci_doctor.machine.gpus import proc_gpus
from ci_doctor.model.outcome import About

# git@host:path, the short form of ssh (git-fetch(1), "Git URLs").
_SHORT_SSH = re.compile(
    r"(?:[\w.-]+@)?(?P<host>[A-Za-z0-9][\w.-]*\.[A-Za-z]{2,}):(?!/)(?P<path>\S+)"
)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?")
_PATH = re.compile(r"[\w.~+-]+(?:/[\w.~+-]+)+")


def web_address(remote: str) -> str | None:
    """`https://host/owner/name` for a remote by https, http, ssh or git; None for any other.

    User names, passwords and the port of ssh are left out.
    """
    short = _SHORT_SSH.fullmatch(remote)
    if short is not None:
        return _address("https", short["host"], short["path"])
    try:
        parts = urlsplit(remote)
        host = parts.hostname or ""
        port = parts.port
    except ValueError:
        return None
    if parts.scheme in {"ssh", "git", "git+ssh"}:
        return _address("https", host, parts.path)
    if parts.scheme in {"http", "https"}:
        place = host if port is None else f"{host}:{port}"
        return _address(parts.scheme, place, parts.path)
    return None


def _address(scheme: str, host: str, path: str) -> str | None:
    name = path.strip("/").removesuffix(".git")
    if _HOST.fullmatch(host) is None or _PATH.fullmatch(name) is None:
        return None
    return f"{scheme}://{host}/{name}"


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
