# SPDX-License-Identifier: Apache-2.0
"""Reads an archive's store: which of its identities come nearest to a wanted one."""

from collections.abc import Iterable, Sequence

from ci_doctor.correctness.archive.evict import ArchivedFile
from ci_doctor.correctness.archive.identity_file import IDENTITY, MOST_BYTES, described, place_of
from ci_doctor.correctness.archive.near_misses import NearMiss
from ci_doctor.identity.identity import Identity, differences
from ci_doctor.store.errors import StoreError
from ci_doctor.store.objects import ObjectStore

NEAREST = 3
# Of identities: each costs a read, over NFS some milliseconds.
_MOST_IDENTITIES = 500
_DAY_S = 86400


def nearest(
    store: ObjectStore, identity: Identity, files: Iterable[ArchivedFile], skipped: list[str]
) -> tuple[NearMiss, ...]:
    """The nearest of the other identities with `files`, newest first; at most NEAREST.

    What cannot be read is added to `skipped`.
    """
    by_place: dict[str, list[ArchivedFile]] = {}
    for file in files:
        by_place.setdefault(file.place, []).append(file)
    by_place.pop(place_of(identity), None)
    misses = []
    for place in sorted(by_place)[:_MOST_IDENTITIES]:
        try:
            other = _identity(store, place, skipped)
        except StoreError as error:
            skipped.append(error.message)
            # The others would fail alike, and they only explain.
            break
        if other is not None:
            misses.append(_miss(other, identity, by_place[place]))
    # Of two that are equally near the newer one: its machine is more likely to be around still.
    misses.sort(key=lambda miss: (len(miss.differences), miss.age_s))
    return tuple(misses[:NEAREST])


def _identity(store: ObjectStore, place: str, skipped: list[str]) -> Identity | None:
    """The identity of a place, if its description is there and is its own. Raises StoreError."""
    content = store.read(f"{place}/{IDENTITY}", MOST_BYTES)
    # Another agent has not written it yet, or has evicted it meanwhile.
    if content is None:
        return None
    other = described(content)
    # A description under a wrong name was copied or edited: it describes other starts.
    if other is None or place != place_of(other):
        skipped.append(f"{store.location}/{place}: its identity.json is not that of its name")
        return None
    return other


def _miss(other: Identity, identity: Identity, files: Sequence[ArchivedFile]) -> NearMiss:
    """`files` are the starts under `other`, newest first."""
    newest = files[0]
    return NearMiss(
        differences=differences(other, identity),
        starts=len(files),
        recorded_at=newest.recorded_at,
        age_s=newest.age_days() * _DAY_S,
    )
