# SPDX-License-Identifier: Apache-2.0
"""Pure. What goes wrong with a store, by its reason.

StoreError
├── DamagedError     bytes are not what their name, their digest or their format says
│   └── LimitError       more than a reader accepts, or a form that it never accepts
└── TooLargeError    an object is larger than its reader allows
"""

import enum
import errno
from typing import Final

from ci_doctor.errors import InfraError


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
