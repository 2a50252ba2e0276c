# SPDX-License-Identifier: Apache-2.0
"""Reads a store whole: every manifest this job may read, and every pack that one of them names."""

from msgspec import Struct

from ci_doctor.caches.trusted_store import TrustedStore
from ci_doctor.store.deadline import Deadline
from ci_doctor.store.digest import digest
from ci_doctor.store.errors import DamagedError, StoreError
from ci_doctor.store.layout import pack_name
from ci_doctor.store.manifest import PACK_BYTES, PackReference


class VerifiedStore(Struct, frozen=True, kw_only=True):
    """What was read, and a sentence for each object that is not what its name says."""

    manifests: int
    packs: int
    bytes: int
    damaged: tuple[str, ...]


def verify_store(
    source: TrustedStore, families: tuple[str, ...], deadline: Deadline
) -> VerifiedStore:
    """Read all manifests of `families` and their packs. Raises StoreError if the store fails."""
    damaged: list[str] = []
    packs: dict[PackReference, None] = {}
    manifests = 0
    for family in families:
        for name in source.all_names(family):
            deadline.check("verifying the store")
            manifests += 1
            try:
                packs.update(dict.fromkeys(source.read(name).manifest.packs))
            except StoreError as error:
                if error.is_of_whole_store:
                    raise
                damaged.append(f"{name}: {error.message}")
    size = 0
    for pack in packs:
        deadline.check("verifying the store")
        try:
            size += _verified_bytes(source, pack)
        except StoreError as error:
            if error.is_of_whole_store:
                raise
            damaged.append(error.message)
    return VerifiedStore(manifests=manifests, packs=len(packs), bytes=size, damaged=tuple(damaged))


def _verified_bytes(source: TrustedStore, pack: PackReference) -> int:
    """The pack's size. Raises DamagedError, StoreError."""
    name = pack_name(pack.scope, pack.digest)
    content = source.store.read(name, PACK_BYTES)
    if content is None:
        raise DamagedError(f"{name} is missing")
    if digest(content) != pack.digest:
        raise DamagedError(f"{name} was changed: its bytes do not have the digest in its name")
    return len(content)
