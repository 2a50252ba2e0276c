# SPDX-License-Identifier: Apache-2.0
"""Reads an archive's directory: the markers of what was revoked (revocation.py)."""

import re
from pathlib import Path

import msgspec

from ci_doctor.correctness.archive.revocation import Revocation, Revocations

_MARKER = re.compile(r"revoked-([0-9a-f]{40}|[0-9a-f]{64})\.json")


def marker(directory: Path, key: str) -> Path:
    """The file that revokes `key`."""
    return directory / f"revoked-{key}.json"


def read_revocations(directory: Path) -> Revocations:
    """The revocations of the archive in `directory`; none if it is absent.

    Raises OSError if the directory cannot be listed: then nobody knows what is revoked.
    """
    found = {}
    try:
        entries = sorted(directory.iterdir())
    except FileNotFoundError:
        return Revocations()
    for path in entries:
        match = _MARKER.fullmatch(path.name)
        if match is not None:
            found[match[1]] = _read(path)
    return Revocations(by_key=found)


def _read(path: Path) -> Revocation:
    """The content of a marker; an empty one if it is unreadable, because its name suffices."""
    try:
        revocation = msgspec.json.decode(path.read_bytes(), type=Revocation)
    except (OSError, msgspec.DecodeError, RecursionError):
        return Revocation()
    return revocation
