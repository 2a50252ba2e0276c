# SPDX-License-Identifier: Apache-2.0
"""Reads RECORD files: which files each distribution has installed, with their sizes and hashes.

RECORD is a CSV file of path, hash and size ("Recording installed projects").
"""

import csv
from collections.abc import Iterator, Mapping

from msgspec import Struct

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.distribution import InstalledDistribution
from ci_doctor.checks.python.installed_environment import read_environments

# RECORD of torch has 1.5 MiB.
_LIMIT = 16 << 20


class RecordedFile(Struct, frozen=True, kw_only=True, gc=False):
    """One line: `path` is below the site directory; `size` is in bytes, and None if it is not known."""

    path: str
    digest: str
    size: int | None


Records = Mapping[str, tuple[RecordedFile, ...]]


def read_records(context: CheckContext) -> Records:
    """The files of each wheel in each environment, by the path of its dist-info."""
    records: dict[str, tuple[RecordedFile, ...]] = {}
    for environment in context.shared(read_environments):
        for distribution in environment.installed:
            key = str(distribution.folder)
            if distribution.is_wheel and key not in records:
                records[key] = tuple(_files(distribution))
    return records


def _files(distribution: InstalledDistribution) -> Iterator[RecordedFile]:
    """Without what lies outside of the site directory, and without bytecode, which has no hash."""
    try:
        with open(f"{distribution.folder}/RECORD", "rb") as file:  # noqa: PTH123
            text = file.read(_LIMIT).decode(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        fields = _fields(line)
        if fields is None:
            continue
        path, digest, size = fields
        if digest and not path.startswith(("../", "/")) and not path.endswith(".pyc"):
            yield RecordedFile(
                path=path, digest=digest, size=int(size) if size.isdecimal() else None
            )


def _fields(line: str) -> tuple[str, str, str] | None:
    # The CSV reader is three times as slow, and needed for few lines.
    values = line.rsplit(",", 2)
    if line.startswith('"'):
        values = next(csv.reader([line]), [])
    if len(values) != 3:
        return None
    path, digest, size = values
    return path, digest, size
