# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and files: downloads artifacts of a build by Buildkite's REST API, within limits.

The API lists a build's artifacts page by page, and redirects a download to a signed address
(https://buildkite.com/docs/apis/rest-api/artifacts; scope `read_artifacts`). The token goes to the
API alone: neither to that address, nor to the one that the API names for the next page.
"""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, urljoin

import msgspec
from msgspec import Struct

from ci_doctor.buildkite.artifact import Artifact
from ci_doctor.buildkite.bounded_request import HttpReply, Patience, RequestLimits, request
from ci_doctor.buildkite.download_plan import DownloadLimits, plan_download
from ci_doctor.buildkite.rest_address import (
    BUILD,
    address,
    endpoint,
    is_encrypted,
    is_local,
    token,
)
from ci_doctor.system.files.directories import make_directory

_PER_PAGE: Final = 100  # the API's own limit
_MOST_PAGES: Final = 1000
_MOST_REDIRECTS: Final = 3  # a storage of one's own may redirect once more
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_NEXT: Final = re.compile(r'rel="?next"?')
_PROBLEMS_SHOWN: Final = 5
_FINISHED: Final = "finished"
_STATUSES: Final = {
    401: "the token is not valid",
    403: "the token lacks the scope read_artifacts",
    404: "the token may not read this pipeline, or there is no such build",
}


class RestArtifact(Artifact, frozen=True, kw_only=True):
    """An artifact with its id in the API. state: `finished` for one that can be downloaded."""

    id: str
    state: str = _FINISHED


class _ListedArtifact(Struct, frozen=True):
    id: str
    job_id: str
    path: str
    state: str = _FINISHED
    file_size: int = 0


class RestDownload:
    """One download: where each artifact lies, below a folder of its job, and what went wrong.

    files: the job of each file. problems: sentences about what could not be had.
    """

    def __init__(self, environ: Mapping[str, str], into: Path, limits: DownloadLimits) -> None:
        self.problems: list[str] = []
        self.files: dict[Path, str] = {}
        self._environ = environ
        self._address = address(environ, BUILD)
        self._into = into
        self._limits = limits
        self._deadline = time.monotonic() + limits.all_s

    def search(self) -> tuple[RestArtifact, ...]:
        """All artifacts of the build, of all pages that could be read."""
        artifacts: list[RestArtifact] = []
        for page in range(1, _MOST_PAGES + 1):
            url = f"{self._address}/artifacts?per_page={_PER_PAGE}&page={page}"
            reply = self._ask_api(url)
            if reply.problem is not None:
                reason = _STATUSES.get(reply.status or 0, reply.problem)
                self.problems.append(f"Buildkite's REST API lists no artifacts: {reason}")
                break
            try:
                artifacts += _listed(reply.body)
            except (msgspec.DecodeError, UnicodeError) as error:
                self.problems.append(f"Buildkite's REST API lists no artifacts: {error}")
                break
            # Its address is not used: the token would go wherever it leads.
            if not _NEXT.search(reply.headers.get("link", "")):
                break
        else:
            self.problems.append(
                f"artifacts after the first {_MOST_PAGES * _PER_PAGE:,} are left out"
            )
        return tuple(artifacts)

    def fetch(
        self, name: str, artifacts: tuple[RestArtifact, ...], tell: Callable[[str], None]
    ) -> None:
        """Download those of `artifacts` whose names match `name`."""
        plan = plan_download(name, artifacts, self._limits, own_job=None)
        self.problems += plan.problems
        wanted = [each for each in (*plan.whole, *plan.by_itself) if isinstance(each, RestArtifact)]
        problems: list[str] = []
        for number, each in enumerate(wanted, start=1):
            tell(f"downloads {number:,} of {len(wanted):,} artifacts {name}")
            problem = self._get(each)
            if problem is not None:
                problems.append(
                    f"{each.path!r} of job {each.job} could not be downloaded: {problem}"
                )
        self.problems += problems[:_PROBLEMS_SHOWN]
        if len(problems) > _PROBLEMS_SHOWN:
            more = len(problems) - _PROBLEMS_SHOWN
            self.problems.append(f"{more} more files {name} could not be downloaded")

    def _get(self, artifact: RestArtifact) -> str | None:
        """Download one; a sentence about why it could not be had."""
        if artifact.state != _FINISHED:
            return f"its state is {artifact.state[:20]!r}"
        job, id_ = quote(artifact.job, safe=""), quote(artifact.id, safe="")
        url = f"{self._address}/jobs/{job}/artifacts/{id_}/download"
        reply = self._followed(url, self._ask_api(url), artifact.size)
        if reply.problem is not None:
            return reply.problem
        if len(reply.body) != artifact.size:
            return f"{len(reply.body):,} of {artifact.size:,} bytes came"
        path = self._into / f"of-{artifact.job}" / artifact.path
        try:
            make_directory(path.parent)
            path.write_bytes(reply.body)
        except OSError as error:
            return error.strerror or str(error)
        self.files[path] = artifact.job
        return None

    def _followed(self, url: str, reply: HttpReply, size: int) -> HttpReply:
        """The content behind the redirect `reply` of `url`."""
        for _ in range(_MOST_REDIRECTS):
            if reply.status not in _REDIRECTS:
                return reply
            url = _joined(url, reply.headers.get("location", ""))
            if not self._may_follow(url):
                return HttpReply(problem="its address is not an https one")
            reply = self._ask(url, {}, reply_bytes=size)
        return reply

    def _may_follow(self, url: str) -> bool:
        # Without encryption only if the API itself is a server on this machine, as in tests.
        return is_encrypted(url) or (is_local(endpoint(self._environ)) and is_local(url))

    def _ask_api(self, url: str) -> HttpReply:
        headers = {
            "Authorization": f"Bearer {token(self._environ)}",
            "Accept": "application/json",
        }
        return self._ask(url, headers, reply_bytes=RequestLimits().reply_bytes)

    def _ask(self, url: str, headers: Mapping[str, str], *, reply_bytes: int) -> HttpReply:
        left_s = self._deadline - time.monotonic()
        limits = RequestLimits(try_s=self._limits.call_s, all_s=left_s, reply_bytes=reply_bytes)
        return request("GET", url, Patience(limits), headers=headers)


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:  # an odd address in brackets
        return ""


def _listed(body: bytes) -> list[RestArtifact]:
    return [
        RestArtifact(
            job=each.job_id, path=each.path, size=each.file_size, id=each.id, state=each.state
        )
        for each in msgspec.json.decode(body, type=list[_ListedArtifact])
    ]
