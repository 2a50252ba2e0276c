# SPDX-License-Identifier: Apache-2.0
"""Acts on files: `identity.json`, which describes the identity of an archive's subdirectory."""

import contextlib
from pathlib import Path

import msgspec

from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.system.files.atomic import write_atomically

IDENTITY = "identity.json"


def describe(place: Path, identity: Identity) -> None:
    """Write identity.json unless it is there: for near misses, and for people."""
    path = place / IDENTITY
    if path.exists():
        return
    content = msgspec.json.format(msgspec.json.encode(identity)) + b"\n"
    # The start is kept already, and it holds its identity itself.
    with contextlib.suppress(UsageError):
        write_atomically(path, content)


def described(place: Path) -> Identity | None:
    """The identity that the file describes; None if it cannot be read."""
    try:
        recorded = msgspec.json.decode((place / IDENTITY).read_bytes(), type=Identity)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None
    return Identity.of(recorded.facts, recorded.unknown, recorded.noted)
