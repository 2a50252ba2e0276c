# SPDX-License-Identifier: Apache-2.0
"""Pure. From the remote of a repository to the address of its pages."""

import re
from urllib.parse import urlsplit

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
