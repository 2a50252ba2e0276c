# SPDX-License-Identifier: Apache-2.0
"""Pure. Addresses of what a report is about: its build, its commit, its branch."""

import re
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from ci_doctor.model.about import About
from ci_doctor.render.safe_text import printable

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_SHOWN = 12  # characters of a commit
# Between a repository's address and a commit or branch: (commit, branch), by words of the host.
_PATHS = {
    "gitlab": ("/-/commit/", "/-/tree/"),
    "bitbucket": ("/commits/", "/branch/"),
}
_USUAL = ("/commit/", "/tree/")  # GitHub, Gitea, Forgejo


class Link(NamedTuple):
    """What is shown, and where it leads; None if no address is known, or none that is safe."""

    name: str
    text: str
    address: str | None


def links(about: About) -> tuple[Link, ...]:
    """The build, the commit and the branch, as far as they are known."""
    all_links = []
    if about.build is not None:
        pipeline = f"{about.pipeline} " if about.pipeline else ""
        all_links.append(Link("build", f"{pipeline}#{about.build}", safe_address(about.build_url)))
    repository = safe_address(about.repository)
    commit_path, branch_path = _paths(repository)
    if about.commit:
        address = None
        if repository and _COMMIT.fullmatch(about.commit):
            address = f"{repository}{commit_path}{about.commit}"
        all_links.append(Link("commit", about.commit[:_SHOWN], address))
    if about.branch:
        address = None
        if repository:
            address = f"{repository}{branch_path}{quote(printable(about.branch))}"
        all_links.append(Link("branch", about.branch, address))
    return tuple(all_links)


def _paths(repository: str | None) -> tuple[str, str]:
    host = urlsplit(repository or "").hostname or ""
    for word, paths in _PATHS.items():
        if word in host:
            return paths
    return _USUAL


def safe_address(address: str | None) -> str | None:
    """`address` if a browser may follow it: http or https, a host, and no character that acts."""
    if address is None or re.fullmatch(r"[\x21-\x7e]+", address) is None:
        return None
    if any(character in address for character in "\"'<>`\\()[]{}|^"):
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
        return None
    return address.rstrip("/")
