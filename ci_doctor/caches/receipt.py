# SPDX-License-Identifier: Apache-2.0
"""Acts on files: what a restore has installed where, for `status` and `verify`."""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ci_doctor.decodable import decodable
from ci_doctor.store.manifest import ColdCost, IdentityTier, Origin
from ci_doctor.store.objects import StoreError, StoreFailure
from ci_doctor.system.files.own_directory import RECEIPTS, STATE_VARIABLE, machine_place
from ci_doctor.system.files.writing import make_directory, write_atomically

# --- the one in which the processes of this user on this machine agree ---
# It holds locks, results and receipts. Others must not be able to write to it: a result placed by them
# would be believed.


def machine_directory(environ: Mapping[str, str], *, make: bool = True) -> Path:
    """The directory of mode 0700 that belongs to this user; made if it is missing and `make`.

    It is that of machine_place(). Raises StoreError if it is a link, belongs to somebody else, or cannot
    be made.
    """
    path = machine_place(environ)
    try:
        if make:
            make_directory(path, 0o700)
        status = path.lstat()
    except OSError as error:
        raise _refused(f"cannot use {path}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise _refused(f"{path} is no directory")
    if status.st_uid != os.geteuid():
        raise _refused(f"{path} belongs to another user")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise _refused(f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):04o})")
    return path


def _refused(message: str) -> StoreError:
    hint = f"remove it, or name another directory in {STATE_VARIABLE}"
    return StoreError(StoreFailure.REFUSED, message, hint=hint)


# --- what a restore has installed where, for `status` and `verify` ---

_SCHEMA = 3


class InstalledFile(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A file as it was installed: its path below the root, its size, time and digest (hex)."""

    path: str
    bytes: int
    mtime_ns: int
    digest: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was restored. Times are since the epoch.

    created_ms: when it was saved. installed_ns: when the last file was in place. `bytes` are those of the files, fetched_bytes those
    that came from the store. hard, path and soft are the identity of this machine, and saved_* that of
    the manifest. job: the Buildkite job that restored it. installed: how many of the files the restore
    put there; the others were there before. counts: the library's own statistics when it was restored,
    None if it keeps none.
    """

    schema: int = _SCHEMA
    family: str
    root: str
    store: str
    manifest: str
    created_ms: int
    installed_ns: int
    bytes: int
    fetched_bytes: int
    seconds: float
    origin: Origin
    cold: ColdCost | None
    path: IdentityTier
    saved_path: IdentityTier
    soft: IdentityTier
    saved_soft: IdentityTier
    job: str | None
    counts: dict[str, int] | None
    installed: int
    files: tuple[InstalledFile, ...]


def keep_receipt(state: Path, receipt: Receipt) -> None:
    """Write the receipt into `state`, in place of an earlier one of the same family and root.

    Raises UsageError if it cannot be written.
    """
    write_atomically(_path(state, receipt.family, receipt.root), msgspec.json.encode(receipt))


def read_receipt(state: Path, family: str, root: Path) -> Receipt | None:
    """The receipt of this family and directory; None if there is none that can be read."""
    return _read(_path(state, family, str(root)))


def receipts_of(state: Path, family: str) -> list[Receipt]:
    """All receipts of a family, the newest first."""
    receipts = []
    for path in (state / RECEIPTS).glob(f"{family}-*.json"):
        receipt = _read(path)
        if receipt is not None and receipt.family == family:
            receipts.append(receipt)
    return sorted(receipts, key=lambda receipt: -receipt.installed_ns)


def forget_receipt(state: Path, family: str, root: Path) -> None:
    """Remove the receipt: what lies there now was not restored."""
    _path(state, family, str(root)).unlink(missing_ok=True)


def _read(path: Path) -> Receipt | None:
    try:
        receipt = msgspec.json.decode(path.read_bytes(), type=decodable(Receipt))
    except (OSError, msgspec.MsgspecError):
        return None
    return receipt if receipt.schema == _SCHEMA else None


def _path(state: Path, family: str, root: str) -> Path:
    digest = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()
    return state / RECEIPTS / f"{family}-{digest[:16]}.json"
