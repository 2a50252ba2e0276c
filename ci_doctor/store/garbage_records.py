# SPDX-License-Identifier: Apache-2.0
"""Acts on a store: the packs that earlier collections of garbage saw without a reference, and when."""

import secrets
from collections.abc import Iterable
from typing import Final

import msgspec

from ci_doctor.decodable import decodable
from ci_doctor.store.objects import ObjectStore, StoredObject

_RECORDS: Final = "gc/v1/"
_MOST_BYTES: Final = 64 * 1024 * 1024


class GarbageRecords:
    """The records in `store`. One is ripe if it is at least `grace_ms` old at `now_ms` (since the epoch).

    Raises StoreError if the store fails.
    """

    def __init__(self, store: ObjectStore, *, now_ms: int, grace_ms: int) -> None:
        self._store = store
        self._now_ms = now_ms
        self._ripe: list[StoredObject] = []
        self._young: list[StoredObject] = []
        for entry in store.names(_RECORDS):
            if not entry.name.endswith(".json") or entry.modified_ms > now_ms:
                continue
            is_ripe = entry.modified_ms <= now_ms - grace_ms
            (self._ripe if is_ripe else self._young).append(entry)

    def doomed(self) -> set[str]:
        """The packs in ripe records."""
        return self._names_in(self._ripe)

    def write(self, waiting: Iterable[StoredObject]) -> None:
        """Record the packs that wait and stand in no young record; remove the ripe records."""
        new = sorted({entry.name for entry in waiting} - self._names_in(self._young))
        if new:
            name = f"{_RECORDS}{self._now_ms:013d}-{secrets.token_hex(8)}.json"
            self._store.create(name, msgspec.json.encode(new))
        for entry in self._ripe:
            self._store.remove(entry.name)

    def _names_in(self, records: Iterable[StoredObject]) -> set[str]:
        """A damaged record counts as none."""
        names: set[str] = set()
        for entry in records:
            content = self._store.read(entry.name, _MOST_BYTES)
            try:
                names.update(msgspec.json.decode(content or b"[]", type=decodable(list[str])))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
        return names
