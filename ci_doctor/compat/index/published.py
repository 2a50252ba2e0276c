# SPDX-License-Identifier: Apache-2.0
"""Pure. Files of an index's page, in JSON (PEP 691) or HTML (PEP 503), and the best one of each version."""

import json
from collections.abc import Iterable
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin, urlsplit

from msgspec import Struct
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version


class PublishedFile(Struct, frozen=True, kw_only=True):
    """A file of a release. `sha256` is None if the index does not say it."""

    filename: str
    address: str
    sha256: str | None = None
    is_yanked: bool = False


class PublishedRelease(Struct, frozen=True, kw_only=True):
    """A version of a package, and the file that its source is read from."""

    name: str
    version: Version
    file: PublishedFile

    @property
    def label(self) -> str:
        """`name version`."""
        return f"{self.name} {self.version}"


def json_files(content: bytes, page: str) -> list[PublishedFile]:
    """The files of a page in JSON. Raises ValueError if it is none."""
    listed = json.loads(content).get("files", [])
    return [
        PublishedFile(
            filename=str(each["filename"]),
            address=urljoin(page, str(each["url"])),
            sha256=each.get("hashes", {}).get("sha256"),
            is_yanked=bool(each.get("yanked")),
        )
        for each in listed
    ]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.append(dict(attrs))


def html_files(text: str, page: str) -> list[PublishedFile]:
    """The files that a page in HTML links to."""
    reader = _Links()
    reader.feed(text)
    files = []
    for link in reader.links:
        address = urljoin(page, link.get("href") or "")
        parts = urlsplit(address)
        name, _, digest = parts.fragment.partition("=")
        files.append(
            PublishedFile(
                filename=unquote(parts.path.rpartition("/")[2]),
                address=address.partition("#")[0],
                sha256=digest if name == "sha256" else None,
                is_yanked="data-yanked" in link,
            )
        )
    return files


def best_files(name: str, files: Iterable[PublishedFile]) -> list[PublishedRelease]:
    """One file for each version, oldest version first: a wheel if there is one, else the sdist."""
    best: dict[Version, tuple[int, str, PublishedFile]] = {}
    for file in files:
        read = _parsed(file.filename)
        if read is None or read[0] != canonicalize_name(name):
            continue
        _, version, rank = read
        candidate = (rank, file.filename, file)
        # The last name wins among equals: the newest Python, and the same file on every machine.
        if version not in best or candidate[:2] > best[version][:2]:
            best[version] = candidate
    return [
        PublishedRelease(name=name, version=version, file=best[version][2])
        for version in sorted(best)
    ]


def _parsed(filename: str) -> tuple[str, Version, int] | None:
    """Name, version and rank: a wheel for all platforms, for Linux, for another one, an sdist."""
    try:
        if filename.endswith(".whl"):
            name, version, _, tags = parse_wheel_filename(filename)
            platforms = {tag.platform for tag in tags}
            is_linux = any("linux" in each for each in platforms)
            return name, version, 3 if "any" in platforms else 2 if is_linux else 1
        if filename.endswith((".tar.gz", ".zip")):
            name, version = parse_sdist_filename(filename)
            return name, version, 0
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
    return None
