# SPDX-License-Identifier: Apache-2.0
"""Acts on an archive's store: `identity.json`, which describes the identity of a subdirectory."""

import contextlib

import msgspec

from ci_doctor.identity.identity import Identity
from ci_doctor.store.errors import StoreError
from ci_doctor.store.objects import ObjectStore

# What the names of all identities' directories begin with.
IDENTITIES = "identity-"
IDENTITY = "identity.json"
# One has some kilobytes.
MOST_BYTES = 16 << 20


def place_of(identity: Identity) -> str:
    """The directory of an identity's starts."""
    return f"{IDENTITIES}{identity.digest()}"


def describe(store: ObjectStore, place: str, identity: Identity) -> None:
    """Write identity.json unless it is there: for near misses, and for people."""
    content = msgspec.json.format(msgspec.json.encode(identity)) + b"\n"
    # The start is kept already, and it holds its identity itself.
    with contextlib.suppress(StoreError):
        store.create(f"{place}/{IDENTITY}", content)


def described(content: bytes) -> Identity | None:
    """The identity that the content of a file describes; None if it cannot be read."""
    try:
        recorded = msgspec.json.decode(content, type=Identity)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Identity.of(recorded.facts, recorded.unknown, recorded.noted)
