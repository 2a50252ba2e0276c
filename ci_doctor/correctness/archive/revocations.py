# SPDX-License-Identifier: Apache-2.0
"""Reads an archive: the markers of what was revoked (revocation.py)."""

import re
from pathlib import Path

import msgspec

from ci_doctor.correctness.archive.archive_store import archive_store
from ci_doctor.correctness.archive.revocation import Revocation, Revocations
from ci_doctor.store.errors import StoreError
from ci_doctor.store.objects import ObjectStore

_PREFIX = "revoked-"
_MARKER = re.compile(r"revoked-([0-9a-f]{40}|[0-9a-f]{64})\.json")
# A marker names the starts of one commit, a hundred bytes for each.
_MOST_BYTES = 16 << 20


def marker(directory: Path, key: str) -> Path:
    """The file that revokes `key`."""
    return directory / f"{_PREFIX}{key}.json"


def read_revocations(place: Path | str) -> Revocations:
    """The revocations of the archive at `place`; none if it is absent. Raises StoreError."""
    return revocations_in(archive_store(place))


def revocations_in(store: ObjectStore) -> Revocations:
    """The revocations in `store`.

    Raises StoreError if it cannot be listed: then nobody knows what is revoked.
    """
    revocations = {}
    for each in sorted(store.names(_PREFIX), key=lambda each: each.name):
        match = _MARKER.fullmatch(each.name)
        if match is not None:
            revocations[match[1]] = _read(store, each.name)
    return Revocations(by_key=revocations)


def _read(store: ObjectStore, name: str) -> Revocation:
    """The content of a marker; an empty one if it is unreadable, because its name suffices."""
    try:
        content = store.read(name, _MOST_BYTES)
        return msgspec.json.decode(content or b"", type=Revocation)
    except (StoreError, msgspec.DecodeError, RecursionError):
        return Revocation()
