# SPDX-License-Identifier: Apache-2.0
"""Pure. What a store of objects offers to those who save and restore."""

from collections.abc import Iterator
from typing import Protocol

import msgspec


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object in a store: its name, its size, and when it was last written (ms since the epoch)."""

    name: str
    bytes: int
    modified_ms: int


class ObjectStore(Protocol):
    """Immutable objects by name. Each method raises StoreError if the store fails."""

    @property
    def location(self) -> str:
        """Where it is, for people, without secrets."""

    @property
    def shared(self) -> bool:
        """Whether anyone but this user can write to it."""

    @property
    def range_bytes(self) -> int:
        """How many bytes a read_range() of it had best ask for, if more than that are wanted."""

    def read(self, name: str, limit: int) -> bytes | None:
        """The content; None if there is no such object. TooLargeError above `limit` bytes."""

    def read_range(self, name: str, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes from `offset`. StoreError if the object is missing or shorter."""

    def create(self, name: str, *parts: bytes) -> bool:
        """Write the object, `parts` one after another, whole or not at all. False if it exists already."""

    def names(self, prefix: str) -> Iterator[StoredObject]:
        """The objects whose names begin with `prefix`, in no promised order."""

    def remove(self, name: str) -> None:
        """Remove the object; nothing happens if it is gone already."""
