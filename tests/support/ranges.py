"""A part of an object of a store, as bytes."""

from ci_doctor.store.objects import ObjectStore


def range_of(store: ObjectStore, name: str, offset: int, length: int) -> bytes:
    """`length` bytes from `offset`. Raises StoreError as the store does."""
    content = bytearray(length)
    store.read_range(name, offset, memoryview(content))
    return bytes(content)
