# SPDX-License-Identifier: Apache-2.0
"""Pure. The metadata of an installed distribution: its name, its version, where changes are listed.

https://packaging.python.org/specifications/core-metadata/
"""

import re
from collections.abc import Mapping

from msgspec import Struct

# https://packaging.python.org/specifications/well-known-project-urls/, in the order of use here.
_CHANGES = ("changelog", "changes", "releasenotes", "whatsnew", "history")
_HOMES = ("homepage", "source", "repository", "sourcecode", "github", "documentation", "docs")
_NOT_IN_A_LABEL = re.compile(r"[^a-z0-9]+")


class PackageMetadata(Struct, frozen=True, kw_only=True):
    """What METADATA or PKG-INFO says; None for what it does not."""

    name: str | None = None
    version: str | None = None
    address: str | None = None


def parse_metadata(text: str) -> PackageMetadata:
    """The headers of `text`. They end at the first empty line; a description may follow."""
    headers, _, _ = text.partition("\n\n")
    fields: dict[str, str] = {}
    addresses: dict[str, str] = {}
    for line in headers.splitlines():
        key, colon, value = line.partition(":")
        # A line that goes on has no key.
        if not colon or key[:1].isspace():
            continue
        name = key.lower()
        if name == "project-url":
            label, _, address = value.partition(",")
            addresses.setdefault(normal_label(label), address.strip())
        else:
            fields.setdefault(name, value.strip())
    return PackageMetadata(
        name=fields.get("name") or None,
        version=fields.get("version") or None,
        address=_address(addresses, fields.get("home-page")),
    )


def normal_label(label: str) -> str:
    """A label of a Project-URL without case, blanks and punctuation: `What's New` is `whatsnew`."""
    return _NOT_IN_A_LABEL.sub("", label.lower())


def _address(addresses: Mapping[str, str], home_page: str | None) -> str | None:
    """The changelog; without one the project's own page."""
    candidates = [addresses.get(label) for label in _CHANGES]
    candidates.append(addresses.get("homepage"))
    candidates.append(home_page)
    candidates += [addresses.get(label) for label in _HOMES]
    for candidate in candidates:
        # `UNKNOWN` was setuptools' word for a field without a value.
        if candidate is not None and candidate.startswith(("https://", "http://")):
            return candidate
    return None
