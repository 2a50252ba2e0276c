# SPDX-License-Identifier: Apache-2.0
"""Acts on a directory that holds the objects of a store, each in a file of its own; opens what `--store` names."""

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from ci_doctor.errors import UsageError
from ci_doctor.store.manifest import MANIFEST_END
from ci_doctor.store.objects import (
    TEMPORARY,
    DamagedError,
    ObjectStore,
    StoredObject,
    TooLargeError,
    check_object_name,
    file_system_error,
)
from ci_doctor.store.transfer import Deadline
from ci_doctor.system.files.access import make_directory, open_at_once

# --- acts on a directory that holds the objects of a store, each in a file of its own ---
# Many jobs may read and write at once, also over NFS. An object appears by one link(2), whole, or not
# at all. Its content is on disk before that: an empty file under the name of a pack would keep every
# later job from writing that pack. Where it lies (the directory's entry) is not synchronised: an
# object lost with the power is an object that is missing.

# These say that the file system has no hard links (link(2)).
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
# Each is lost only to a removal of a folder at that very moment.
_ATTEMPTS: Final = 1000
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class DirectoryStore:
    """The store in `directory`, which is made with the first object."""

    # What is read is digested and decompressed at once, from the cache of the CPU.
    range_bytes = 2 * 1024 * 1024

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.location = str(self.directory)

    @property
    def shared(self) -> bool:
        """Whether anyone but this user and root can write to it, or put another in its place.

        A directory that does not exist yet is judged by those above it.
        """
        place = Path(os.path.realpath(self.directory))
        folders = [place, *place.parents]
        return any(_is_open_to_others(folder, own=folder == place) for folder in folders)

    def make(self) -> None:
        """Make the directory unless it is there. Raises StoreError, also if this user cannot write to it."""
        try:
            self._make_top()
            if not os.access(self.directory, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise file_system_error("write", self.directory, error) from error

    def read(self, name: str, limit: int) -> bytes | None:
        """The content; None if there is no such object. TooLargeError above `limit` bytes."""
        try:
            descriptor = self._open(name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise file_system_error("read", self._path(name), error) from error
        with os.fdopen(descriptor, "rb") as file:
            try:
                # One more than allowed, because the file may be longer than its status says.
                content = file.read(limit + 1)
            except OSError as error:
                raise file_system_error("read", self._path(name), error) from error
        if len(content) > limit:
            raise TooLargeError(f"{self._path(name)} has more than {limit} bytes")
        return content

    def read_range(self, name: str, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes from `offset`. StoreError if the object is missing or shorter."""
        try:
            filled = self._fill(name, offset, buffer)
        except OSError as error:
            raise file_system_error("read", self._path(name), error) from error
        if filled != len(buffer):
            raise DamagedError(f"{self._path(name)} ends before byte {offset + len(buffer)}")

    def create(self, name: str, *parts: bytes) -> bool:
        """Write the object, `parts` one after another, whole or not at all. False if it exists already.

        One that exists is marked as used now, so that garbage collection leaves it.
        """
        path = self._path(name)
        try:
            created = self._create(path, parts)
            if not created:
                # Another user's file cannot be marked; its age then decides.
                with contextlib.suppress(OSError):
                    os.utime(path)
        except OSError as error:
            raise file_system_error("write", path, error) from error
        return created

    def names(self, prefix: str) -> Iterator[StoredObject]:
        """The objects whose names begin with `prefix`, in no promised order.

        Among them is what takes a manifest's place and is no file: who reads it hears of that.
        Unfinished writes are among them, under names that begin with TEMPORARY.
        """
        above, _, beginning = prefix.rpartition("/")
        folder = self.directory / above
        try:
            if self.directory.exists() and not self.directory.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            for file in _walk(folder, beginning):
                name = str(Path(file.name).relative_to(self.directory))
                yield StoredObject(name=name, bytes=file.bytes, modified_ms=file.modified_ms)
        except OSError as error:
            raise file_system_error("list", folder, error) from error

    def remove(self, name: str) -> None:
        """Remove the object; nothing happens if it is gone already, or if a folder is in its place."""
        path = self._path(name)
        try:
            path.unlink(missing_ok=True)
        except IsADirectoryError:
            return
        except OSError as error:
            raise file_system_error("remove", path, error) from error

    def _path(self, name: str) -> Path:
        check_object_name(name)
        return self.directory / name

    def _open(self, name: str) -> int:
        """A descriptor of the regular file. Raises OSError, and DamagedError if it is anything else."""
        path = self._path(name)
        # A planted FIFO would hold up open(2) for ever, and a planted link leads anywhere.
        try:
            descriptor = open_at_once(path, follow=False)
        except OSError as error:
            if error.errno == errno.ELOOP and path.is_symlink():
                raise DamagedError(f"{path} is a symbolic link") from error
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise DamagedError(f"{path} is no regular file")
        return descriptor

    def _fill(self, name: str, offset: int, buffer: memoryview) -> int:
        """How many bytes were read into `buffer`; fewer than it holds only at the end of the file."""
        descriptor = self._open(name)
        try:
            filled = 0
            left = buffer
            while left and (count := os.preadv(descriptor, [left], offset + filled)):
                filled += count
                left = left[count:]
            return filled
        finally:
            os.close(descriptor)

    def _create(self, path: Path, parts: tuple[bytes, ...]) -> bool:
        """Write the file. Somebody may remove its folder while that is empty; then it is made again."""
        for attempt in range(_ATTEMPTS):
            # Not tried again here: below /proc it is never made, and that too is FileNotFoundError.
            self._make_top()
            try:
                self._make_folders(path.parent)
                return _create(path, parts)
            except FileNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _make_top(self) -> None:
        if not self.directory.is_dir():
            # Not by the umask: a group that may write makes a store shared.
            make_directory(self.directory, 0o755)

    def _make_folders(self, folder: Path) -> None:
        """Make `folder`, with the permissions that the store's own directory has."""
        if folder == self.directory or folder.is_dir():
            return
        self._make_folders(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            # A group or everybody may share a store, whatever the umask of one writer.
            folder.chmod(stat.S_IMODE(self.directory.stat().st_mode))


def _is_open_to_others(folder: Path, *, own: bool) -> bool:
    """Whether others can write to `folder`; `own` says that it is the store's own directory."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    if status.st_uid != os.geteuid() and (own or status.st_uid != 0):
        return True
    if not status.st_mode & _OTHERS_WRITE:
        return False
    # In /tmp and its like nobody can rename what is another's (sticky bit).
    return own or not status.st_mode & stat.S_ISVTX


def _create(path: Path, parts: tuple[bytes, ...]) -> bool:
    if path.exists():
        return False
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    descriptor = os.open(temporary, _WRITE, 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            # Others read a shared store too, whatever the umask of this writer.
            os.fchmod(descriptor, 0o644)
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Two writers may both believe to be the first. Their bytes are the same: a name holds a digest.
            temporary.replace(path)
        return True
    finally:
        temporary.unlink(missing_ok=True)


def _walk(folder: Path, beginning: str = "") -> Iterator[StoredObject]:
    """The regular files below `folder`, and anything in the place of a manifest, named by their paths.

    What vanishes meanwhile is left out.

    Only entries of `folder` itself whose names start with `beginning` are looked at.
    """
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if not entry.name.startswith(beginning):
            continue
        try:
            is_file = entry.is_file(follow_symlinks=False)
            if not is_file and not entry.name.endswith(MANIFEST_END):
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(Path(entry.path))
                continue
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        modified_ms = status.st_mtime_ns // 1_000_000
        yield StoredObject(name=entry.path, bytes=status.st_size, modified_ms=modified_ms)


# --- a directory, S3, Google Cloud Storage or Azure ---
# Only these: a URL of another kind is an error, so that no configuration can point a job at a store
# that nobody has thought about.

REMOTE: Final = ("s3", "gs", "az")
# `s3:/x`, `s3:x` and `s3//x`; a directory of such a name is `./s3:/x`.
_MISTYPED: Final = re.compile(rf"({'|'.join(REMOTE)}|file)(?::(?!//)|//)/*")
_HINT: Final = (
    "give a directory, s3://bucket/prefix, gs://bucket/prefix or az://account/container/prefix"
)


def open_store(address: str, environ: Mapping[str, str], *, timeout_s: float) -> ObjectStore:
    """The store that `address` names; nothing is sent or written yet.

    `timeout_s` is for everything that is done through it together, from now on, not for each call:
    a store that hangs takes that long once. It bounds no call to the kernel for a directory.
    `environ` has the credentials. Raises UsageError for an address that is not allowed, and
    StoreError if the extra `cache` is not installed.
    """
    if not is_remote(address):
        return DirectoryStore(directory_of(address))
    from ci_doctor.store.remote_store import open_remote

    return open_remote(_remote(address), environ, Deadline(timeout_s))


def is_remote(address: str) -> bool:
    """Whether `address` names an object store. Raises UsageError if it is not allowed at all."""
    if mistyped := _MISTYPED.match(address):
        # Repeated is nothing of what follows: it may hold a password.
        meant = f"{mistyped[1]}:///" if mistyped[1] == "file" else f"{mistyped[1]}://"
        message = (
            f"the address of the store begins with {mistyped[0]}, and no store is reached by that"
        )
        hint = f"write {meant}…, or ./{mistyped[0]}… for a directory of that name"
        raise UsageError(message, hint=hint)
    scheme, separator, _ = address.partition("://")
    if separator and scheme not in {*REMOTE, "file"}:
        raise UsageError(f"no store is reached by {scheme[:40]}://", hint=_HINT)
    return separator != "" and scheme != "file"


def directory_of(address: str) -> Path:
    """The directory that `address` names. Raises UsageError if it names none of this machine."""
    if not address.startswith("file://"):
        if not address:
            raise UsageError("the store has no address", hint=_HINT)
        return Path(address).expanduser()
    parts = urlsplit(address)
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        raise UsageError(f"{address} names no directory of this machine", hint=_HINT)
    return Path(unquote(parts.path))


def _remote(address: str) -> SplitResult:
    parts = urlsplit(address)
    if "@" in parts.netloc or parts.query or parts.fragment:
        # Not repeated: it may hold a password or a signature.
        message = f"the address of the {parts.scheme} store has more than a name and a path"
        raise UsageError(message, hint=f"put credentials into the environment, and {_HINT}")
    if not parts.netloc or (parts.scheme == "az" and not parts.path.strip("/")):
        raise UsageError(f"{address} names no bucket", hint=_HINT)
    return parts
