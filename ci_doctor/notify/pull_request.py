# SPDX-License-Identifier: Apache-2.0
"""Reads the environment and GitHub's event file: which pull request this job is about."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from ci_doctor.notify.mistakes import is_repository
from ci_doctor.notify.settings import GithubSettings
from ci_doctor.session.web_address import web_address

_PUBLIC_API: Final = "https://api.github.com"
_PUBLIC_HOST: Final = "github.com"
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")
_REF: Final = re.compile(r"refs/pull/([1-9][0-9]{0,9})/(?:merge|head)")
_MOST_BYTES: Final = 8 * 1024 * 1024  # of an event


class PullRequest(Struct, frozen=True, kw_only=True):
    """A pull request, and the API that knows it, without a slash at its end."""

    api_url: str
    repository: str
    number: int


def read_pull_request(settings: GithubSettings, environ: Mapping[str, str]) -> PullRequest | str:
    """The pull request of this job, or a sentence on why there is none."""
    number = _number(environ)
    if number is None:
        return "this job belongs to no pull request"
    api_url = (settings.api_url or environ.get("GITHUB_API_URL") or _PUBLIC_API).rstrip("/")
    repository = settings.repository or _repository(environ, api_url)
    if repository is None or not is_repository(repository):
        return "the repository is not known: name it by `repository` in [notify]"
    return PullRequest(api_url=api_url, repository=repository, number=number)


def _number(environ: Mapping[str, str]) -> int | None:
    # The word "false" outside a pull request
    # (https://buildkite.com/docs/pipelines/configure/environment-variables).
    buildkite = environ.get("BUILDKITE_PULL_REQUEST", "")
    if _NUMBER.fullmatch(buildkite):
        return int(buildkite)
    # Of the events `pull_request` alone; `pull_request_target` has the base's ref.
    ref = _REF.fullmatch(environ.get("GITHUB_REF", ""))
    if ref is not None:
        return int(ref[1])
    path = environ.get("GITHUB_EVENT_PATH")
    return _number_of_event(Path(path)) if path else None


def _number_of_event(path: Path) -> int | None:
    try:
        with path.open("rb") as opened:
            event = json.loads(opened.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    for subject in (event.get("pull_request"), _issue_of_pull_request(event)):
        number = subject.get("number") if isinstance(subject, dict) else None
        if type(number) is int and number > 0:
            return number
    return None


def _issue_of_pull_request(event: dict[str, Any]) -> object:
    """A comment's event is about an issue; that of a pull request has a key of this name."""
    issue = event.get("issue")
    if isinstance(issue, dict) and issue.get("pull_request"):
        return issue
    return None


def _repository(environ: Mapping[str, str], api_url: str) -> str | None:
    """The job's own: of a fork's pull request, too, it is the one that the request is made to."""
    if environ.get("GITHUB_REPOSITORY"):
        return environ["GITHUB_REPOSITORY"]
    address = urlsplit(web_address(environ.get("BUILDKITE_REPO", "")) or "")
    # The token is for one host: a repository elsewhere is another one of the same name.
    host = _PUBLIC_HOST if api_url == _PUBLIC_API else urlsplit(api_url).hostname
    if address.hostname != host:
        return None
    return address.path.strip("/")
