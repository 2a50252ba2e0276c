# SPDX-License-Identifier: Apache-2.0
"""Pure. What a store of objects offers, its limits, names and errors."""

import enum
import errno
import re
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from ci_doctor.errors import InfraError

# --- what goes wrong with a store, by its reason ---
# StoreError
# ├── DamagedError     bytes are not what their name, their digest or their format says
# │   └── LimitError       more than a reader accepts, or a form that it never accepts
# └── TooLargeError    an object is larger than its reader allows


class StoreFailure(enum.StrEnum):
    """Why a store, or the directory that is saved or restored, did not do what was asked."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    FULL = "full"
    READ_ONLY = "read-only"
    REFUSED = "refused"
    DAMAGED = "damaged"
    MISSING = "missing"


class StoreError(InfraError):
    """A store or a directory failed; `reason` is for programs. A command decides what follows."""

    def __init__(self, reason: StoreFailure, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason

    @property
    def is_of_whole_store(self) -> bool:
        """Whether the store itself does not answer, so that the next request would fail alike."""
        return self.reason in {StoreFailure.UNREACHABLE, StoreFailure.TIMEOUT}


class DamagedError(StoreError):
    """Bytes are not what their name, their digest or their format says."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(StoreFailure.DAMAGED, message, hint=hint)


class LimitError(DamagedError):
    """A manifest holds more than its reader accepts, or what no reader accepts."""


class TooLargeError(StoreError):
    """An object is larger than its reader allows."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(StoreFailure.REFUSED, message, hint=hint)


_REASONS: Final = {
    errno.ENOSPC: StoreFailure.FULL,
    errno.EDQUOT: StoreFailure.FULL,
    errno.EFBIG: StoreFailure.FULL,
    errno.EROFS: StoreFailure.READ_ONLY,
    errno.EACCES: StoreFailure.READ_ONLY,
    errno.EPERM: StoreFailure.READ_ONLY,
    errno.ENOENT: StoreFailure.MISSING,
    errno.ETIMEDOUT: StoreFailure.TIMEOUT,
    errno.ESTALE: StoreFailure.UNREACHABLE,
    errno.EIO: StoreFailure.UNREACHABLE,
}
_HINTS: Final = {
    StoreFailure.FULL: "free space there, or choose another directory",
    StoreFailure.READ_ONLY: "choose a directory that this user may write",
}


def file_system_error(action: str, place: object, error: OSError) -> StoreError:
    """The error of a store for one of the kernel: `action` of `place` failed by `error`."""
    reason = _REASONS.get(error.errno or 0, StoreFailure.REFUSED)
    message = f"cannot {action} {place}: {error.strerror or error}"
    return StoreError(reason, message, hint=_HINTS.get(reason))


# --- how much a reader accepts of a manifest, before anything is fetched or written ---

_MIB = 1024 * 1024
_GIB = 1024 * _MIB


class StoreLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The most of each: files, bytes of all files, of one, and of one path (UTF-8).

    `ratio` is bytes of files for one byte in packs, of trees above `plain_bytes`. `manifest_bytes` is of the manifest's JSON.
    """

    files: int = 200_000
    bytes: int = 20 * _GIB
    file_bytes: int = 2 * _GIB
    path_bytes: int = 1024
    ratio: int = 200
    plain_bytes: int = _GIB
    manifest_bytes: int = 64 * _MIB


# --- which names an object may have, in a directory and in an object store alike ---

# What a write has not finished, in a directory.
TEMPORARY: Final = ".ci-doctor-tmp."
_COMPONENT: Final = re.compile(
    r"(?:\.ci-doctor-tmp\.)?[A-Za-z0-9_][A-Za-z0-9._@+-]{0,200}", re.ASCII
)


def check_object_name(name: str) -> None:
    """Raise DamagedError unless `name` is plain components joined by "/": none can leave the store."""
    if not all(_COMPONENT.fullmatch(component) for component in name.split("/")):
        raise DamagedError(f"{name[:200]!r} cannot be the name of an object")


# --- what a store of objects offers to those who save and restore ---


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
