# SPDX-License-Identifier: Apache-2.0
"""Acts on files: opens them so that nothing waits for ever, writes them whole, keeps what processes share in a directory of the user."""

import contextlib
import errno
import fcntl
import os
import re
import select
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, BinaryIO, Final, TypeVar

from ci_doctor.errors import UsageError
from ci_doctor.model.words import nearest

# A snapshot with the hashes of a hundred thousand files has a tenth of it.
_MOST_BYTES: Final = 256 << 20
_MOST_NAMES: Final = 2000
# A writer that is started beside us opens its end of a pipe a moment later.
_WRITER_MS: Final = 1000


def near_path(path: Path) -> str | None:
    """What a path without a file means: the question that names an entry, or where a broken link leads.

    None if no entry is near, and for a path that has a file, whose name is right.
    """
    # These functions raise nothing, whatever a user typed.
    if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH110, PTH114
        return f"`{path}` is a link to `{path.readlink()}`, which leads to no file"
    if os.path.lexists(path):
        return None
    # A path in a configuration starts from its directory, and people type it from where they are.
    for directory in (path.parent, Path()):
        try:
            names = sorted(each.name for each in islice(directory.iterdir(), _MOST_NAMES))
        except OSError:
            continue
        # It may lie in the other directory under this very name.
        near = path.name if path.name in names else nearest(path.name, names)
        if near is None:
            # `prompts` and `prompts.jsonl`, in whatever length.
            near = next((each for each in names if Path(each).stem == path.stem), None)
        if near is not None:
            return f"did you mean `{directory / near}`?"
    return None


def open_at_once(path: Path | str, *, follow: bool = True, dir_fd: int | None = None) -> int:
    """A descriptor that reads `path`; the open of a pipe does not wait for its writer. Raises OSError.

    follow: whether a symbolic link is opened as what it leads to, or is an error. dir_fd: as of `os.open`.
    """
    kind = os.O_CLOEXEC if follow else os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | kind, dir_fd=dir_fd)
    except BlockingIOError:
        # A program may hold a lease on the file (F_SETLEASE of fcntl(2)). The kernel asks for it, and
        # takes it away after `/proc/sys/fs/lease-break-time`.
        # This opens no content: neither a lease nor a pipe holds it up.
        place = os.open(path, os.O_PATH | kind, dir_fd=dir_fd)
        try:
            if not stat.S_ISREG(os.fstat(place).st_mode):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
            return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(place)


def read_regular(path: Path, most_bytes: int = _MOST_BYTES, *, follow: bool = True) -> bytes:
    """The content of `path`. Raises OSError, also for what is no file or is too large.

    follow: whether a symbolic link is read as the file that it leads to, or is an error.
    """
    descriptor = open_at_once(path, follow=follow)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file")
        if status.st_size > most_bytes:
            raise OSError(0, f"it is larger than {most_bytes >> 20} MiB")
        return file.read(most_bytes)


def open_file_or_pipe(path: Path | str) -> BinaryIO:
    """What reads the regular file or the pipe at `path`. Raises OSError, also for a pipe into which nobody writes.

    A pipe may be that of `<(…)` of a shell. A device may have no end, and is refused.
    """
    # Before the open, which may rewind a tape.
    mode = os.stat(path).st_mode  # noqa: PTH116 an odd name stays as it is
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise OSError(0, "not a regular file")
    descriptor = open_at_once(path)
    is_silent = False
    if stat.S_ISFIFO(mode):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        is_silent = not poll.poll(_WRITER_MS)
        os.set_blocking(descriptor, True)
        # The pipe of a shell has had its writer, who may have left without a word.
        place = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - no path
        is_silent = is_silent and not place.startswith("pipe:[")
    file = open(descriptor, "rb")  # noqa: PTH123, SIM115 - a descriptor, which the caller closes
    # Without a writer this is the end of the pipe; with one, it waits for what he writes.
    if is_silent and not file.peek(1):
        file.close()
        raise OSError(0, "a pipe into which nobody writes")
    return file


def unnamed_file() -> IO[bytes]:
    """An empty file that is gone once it is closed, open for reading and writing.

    It lies in the temporary directory. If nothing can be written there (no such directory, a full
    or a read-only disk), it lies in memory. Raises OSError.
    """
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.memfd_create("output"), "w+b")  # noqa: PTH123 - a descriptor has no path


def open_closed_streams() -> None:
    """Open /dev/null at each of 0, 1 and 2 that is closed. Raises OSError if that fails.

    Otherwise the next file that we open gets that number (open(2)), and a child that inherits our
    streams would write into it.
    """
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            break
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


# --- writes that are complete or leave the old content ---


Made = TypeVar("Made")

# Each attempt is lost only to a removal at that very moment.
_ATTEMPTS = 1000


def make_directory(directory: Path, mode: int = 0o777) -> None:
    """Make `directory` with its parents, unless it is there; `mode` is its own. Raises OSError."""
    for attempt in range(_ATTEMPTS):
        try:
            directory.mkdir(mode, parents=True, exist_ok=True)
        # A parent vanished; or the directory did, before the call looked whether it is one.
        except (FileNotFoundError, FileExistsError):
            if os.path.lexists(directory) or attempt == _ATTEMPTS - 1:
                if directory.is_dir():
                    return
                raise
        else:
            return


def in_directory(directory: Path, act: Callable[[], Made]) -> Made:
    """Make `directory`, then `act` in it; again if it vanished before that.

    Returns what `act` returns. `act` is called again after FileNotFoundError alone. Raises OSError.
    """
    for _ in range(_ATTEMPTS - 1):
        make_directory(directory)
        try:
            return act()
        except FileNotFoundError:
            # Not asked whether it is there: somebody else may have made it again since.
            continue
    make_directory(directory)
    return act()


def write_atomically(
    path: Path, content: bytes, *, mode: int = 0o644, is_durable: bool = True
) -> None:
    """Write `content` under a temporary name beside `path`, then rename it.

    Not `is_durable`: whole after a killed process, and perhaps empty after a power loss, for what is
    worth nothing then and must be there at once.

    A symbolic link stays, and its target is written. Raises UsageError if that is not possible,
    or if `path` is not a regular file.
    """
    target = Path(os.path.realpath(path))
    # Renaming over /dev/null would take it away from the whole machine.
    if target.exists() and not target.is_file():
        raise UsageError(f"cannot write {path}: it is not a regular file", hint="name a file")
    try:
        in_directory(target.parent, lambda: _replace(target, content, mode, is_durable))
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}",
            hint="choose a directory that this user can write",
        ) from error


def _replace(target: Path, content: bytes, mode: int, is_durable: bool) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            # Before the rename: after a power loss some file systems would have an empty file.
            if is_durable:
                os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:  # also a signal: no temporary file stays behind
        temporary.unlink(missing_ok=True)
        raise


# --- where the processes of this user on this machine keep what they share ---


STATE_VARIABLE = "CI_DOCTOR_STATE_DIR"
# What `ci-doctor cache restore` has installed.
RECEIPTS = "receipts"
# An agent that runs as a service has no XDG_RUNTIME_DIR. The directory in it is checked before it is used.
_FALLBACK = "/tmp"  # noqa: S108


def machine_place(environ: Mapping[str, str]) -> Path:
    """`$CI_DOCTOR_STATE_DIR`, else `$XDG_RUNTIME_DIR/ci-doctor`, else `/tmp/ci-doctor-UID`."""
    named = environ.get(STATE_VARIABLE)
    runtime = environ.get("XDG_RUNTIME_DIR")
    if named:
        return Path(named)
    if runtime and Path(runtime).is_dir():
        return Path(runtime, "ci-doctor")
    return Path(_FALLBACK, f"ci-doctor-{os.geteuid()}")


# Of a character in mountinfo.
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")
_PREFIX: Final = "ci-doctor-tmp."
# mkdtemp appends eight of these characters (tempfile._RandomNameSequence).
_NAME: Final = re.compile(r"ci-doctor-tmp\.(?:[a-z-]+\.)?[a-z0-9_]{8}")


@contextlib.contextmanager
def own_directory(purpose: str = "", folder: Path | None = None) -> Iterator[str]:
    """A temporary directory, locked until it is removed. `purpose` stands in its name.

    It is made in `folder`, else where temporary files belong.
    """
    prefix = f"{_PREFIX}{purpose}." if purpose else _PREFIX
    with (
        tempfile.TemporaryDirectory(prefix=prefix, dir=folder, ignore_cleanup_errors=True) as name,
        _opened(name) as descriptor,
    ):
        # Without locks nobody can tell that it is in use, nor that it is not: it is never removed.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield name


def lasting_directory(purpose: str) -> Path:
    """A temporary directory that outlives us, for what can be kept nowhere else. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}."))


def is_own_name(name: str) -> bool:
    """Whether a temporary directory of ours is called like this."""
    return _NAME.fullmatch(name) is not None


def abandoned_directories(folder: Path, now: float, least_age_s: float) -> list[Path]:
    """Directories in `folder` that this user's ci-doctor made, and that no ci-doctor uses any more.

    `now` is seconds since the epoch. One that was changed within `least_age_s` is left out, so that
    one that is just being made is never among them. Raises OSError if `folder` cannot be read.
    """
    paths = []
    for path in sorted(folder.iterdir()):
        if _NAME.fullmatch(path.name) is None:
            continue
        with contextlib.suppress(OSError):
            if now - path.lstat().st_mtime >= least_age_s and is_abandoned(path):
                paths.append(path)
    return paths


def is_abandoned(path: Path) -> bool:
    """Whether `path` is a directory of this user that nobody has locked. Raises OSError."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    with _opened(path) as descriptor:
        return _is_free(descriptor)


def remove_abandoned(path: Path) -> None:
    """Remove an abandoned directory, locked meanwhile.

    Raises UsageError if it is in use after all, not ours, or if something is mounted below it: that
    would be emptied too. OSError if it cannot be removed, or if it is unknown what is mounted.
    """
    with _opened(path) as descriptor:
        status = os.fstat(descriptor)
        if _NAME.fullmatch(path.name) is None or status.st_uid != os.geteuid():
            raise UsageError(f"{path} is not a temporary directory of this user's ci-doctor")
        if not _is_free(descriptor):
            raise UsageError(f"{path} is in use")
        mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
        mounted = mounted_below(mounts, Path(os.path.realpath(path)))
        if mounted is not None:
            raise UsageError(f"{mounted} is a mount, and its files are not ci-doctor's")
        shutil.rmtree(path)


def mounted_below(mounts: Iterable[str], path: Path) -> Path | None:
    """The first mount at or below `path` in lines of mountinfo (proc_pid_mountinfo(5)), if any.

    A bind mount has the same device as what lies around it, so os.path.ismount does not see it.
    """
    for line in mounts:
        fields = line.split(" ")
        if len(fields) < 5:
            continue
        point = Path(unescaped(fields[4]))
        if point.is_relative_to(path):
            return point
    return None


def unescaped(field: str) -> str:
    r"""Spaces and the like are written as `\040` in mountinfo."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[int]:
    # O_NOFOLLOW: a link may lead to anything.
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_free(descriptor: int) -> bool:
    """Whether the lock could be taken; it then lasts until the descriptor is closed.

    Raises OSError if the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
