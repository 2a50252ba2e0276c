# SPDX-License-Identifier: Apache-2.0
"""Reads an object of a store from its beginning on, and no more of it than is asked for."""

from ci_doctor.store.objects import ObjectStore


class ObjectReader:
    """The object `name` of `size` bytes, as a file that is read forward."""

    def __init__(self, store: ObjectStore, name: str, size: int) -> None:
        self._store = store
        self._name = name
        self._size = size
        self._offset = 0

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; empty at the end. Raises StoreError."""
        length = min(size, self._size - self._offset)
        if length <= 0:
            return b""
        content = bytearray(length)
        self._store.read_range(self._name, self._offset, memoryview(content))
        self._offset += length
        return bytes(content)
