# SPDX-License-Identifier: Apache-2.0
"""Reads dist-info and egg-info folders: what is installed, without importing it.

The files are those of the packaging specifications ("Recording installed projects", "Core metadata").
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.python.site_directory import SiteDirectory
from ci_doctor.identity.library_names import normal
from ci_doctor.identity.origin import is_editable, read_origin, source_directory

# Long enough for the headers of a package with hundreds of extras.
_HEADER_BYTES = 1 << 17


class InstalledDistribution(Struct, frozen=True, kw_only=True):
    """One distribution; `folder` is its dist-info or egg-info.

    `name` is normalized. `version` is empty and `has_metadata` false if its metadata names none.
    `requires` are the lines of Requires-Dist.
    """

    name: str
    version: str
    folder: Path
    site: SiteDirectory
    has_metadata: bool
    requires: tuple[str, ...] = ()
    requires_python: str | None = None

    @property
    def is_wheel(self) -> bool:
        """Whether it has a dist-info, which an installer wrote."""
        return self.folder.suffix == ".dist-info"

    @property
    def words(self) -> str:
        """Such as `torch 2.9.0`."""
        return f"{self.name} {self.version}".strip()


def distributions_in(site: SiteDirectory) -> Iterator[InstalledDistribution]:
    """Every distribution in `site`, by name."""
    for entry in site.names:
        stem, _, kind = entry.rpartition(".")
        if kind in {"dist-info", "egg-info"} and not entry.startswith("~"):
            yield _read(site, site.path / entry, stem)


def _read(site: SiteDirectory, folder: Path, stem: str) -> InstalledDistribution:
    """By its metadata, else by the name of its folder, which holds the version too."""
    headers = _headers(_metadata_file(folder))
    name, _, rest = stem.partition("-")
    version, _, _ = rest.partition("-")
    names = headers.get("name", [])
    versions = headers.get("version", [])
    return InstalledDistribution(
        name=normal(names[0] if names else name),
        version=versions[0] if versions else version,
        folder=folder,
        site=site,
        has_metadata=bool(names and versions),
        requires=tuple(headers.get("requires-dist", ())),
        requires_python=next(iter(headers.get("requires-python", ())), None),
    )


def _metadata_file(folder: Path) -> str:
    text = str(folder)
    if text.endswith(".dist-info"):
        return f"{text}/METADATA"
    # An egg-info of distutils is a file.
    return text if os.path.isfile(text) else f"{text}/PKG-INFO"  # noqa: PTH113


_WANTED = ("name", "version", "requires-dist", "requires-python")


def _headers(path: str) -> Mapping[str, list[str]]:
    """The headers that matter here; empty for a file that cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - hundreds of files are read
            text = file.read(_HEADER_BYTES).decode(errors="replace")
    except OSError:
        return {}
    # The headers end at the first empty line; a description may follow.
    head, _, _ = text.partition("\n\n")
    headers: dict[str, list[str]] = {}
    for line in head.splitlines():
        key, _, value = line.partition(":")
        key = key.lower()
        if key in _WANTED and value.strip():
            headers.setdefault(key, []).append(value.strip())
    return headers


def installer_of(distribution: InstalledDistribution) -> str:
    """Such as `pip`; empty if nobody has signed."""
    try:
        return (distribution.folder / "INSTALLER").read_text(errors="replace").strip()
    except OSError:
        return ""


def editable_source(distribution: InstalledDistribution) -> Path | None:
    """The directory of an editable installation by direct_url.json (PEP 610); None for others."""
    origin = read_origin(distribution.folder)
    if not is_editable(origin):
        return None
    return source_directory(origin)
