# SPDX-License-Identifier: Apache-2.0
"""Acts on files and threads: of all processes that ask for the same work, one does it, by a deadline."""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.store.objects import StoreError, StoreFailure
from ci_doctor.store.transfer import Deadline
from ci_doctor.system.files.access import write_atomically
from ci_doctor.system.processes import limited_runs

# --- work on a store that may hang ends for its caller at a deadline ---
# A directory on a dead network file system holds up a thread in the kernel, where no signal ends it.

T = TypeVar("T")

# A frame that is being fetched and the removal of some gigabytes; less than an agent's grace period.
_TIDY_S = 3.0
_TELLS_S = 1.0


def bounded(
    work: Callable[[], T],
    seconds: float,
    doing: str,
    deadline: Deadline | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> T:
    """What `work` returns or raises. Raises StoreError if `doing` takes longer than `seconds`.

    `tell` hears each second for how long that has been: a store that hangs says nothing.
    Work that is late, or that a signal ends, gets a moment to remove what it has begun: `deadline`,
    by which it works, is over. If it hangs, its daemon thread ends with the process.
    """
    has_ended = threading.Event()

    def tracked() -> T:
        try:
            return work()
        finally:
            has_ended.set()

    try:
        call = limited_runs.BegunCall(tracked)
        limit = Deadline(seconds)
        while True:
            try:
                return call.result(min(_TELLS_S, limit.left()))
            except limited_runs.TimedOut:
                if not limit.left():
                    raise
                tell(f"{doing}: {seconds - limit.left():.0f} of at most {seconds:.0f} s")
    except BaseException as error:
        if deadline is not None:
            deadline.end()
            has_ended.wait(_TIDY_S)
        if not isinstance(error, limited_runs.TimedOut):
            raise
        message = f"{doing} took longer than {seconds:.3g} s"
        raise StoreError(StoreFailure.TIMEOUT, message, hint="is the store reachable?") from error


# --- of all processes that ask for the same work, one does it, and all have its result ---
# The lock is the kernel's (flock(2)): it ends with its process, so that the next one in line takes over
# at once from a leader that is killed. A result holds until it expires or the machine restarts, a
# failure as well: eight ranks wait for one time-out, not for eight.

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SharedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the leader left: the kernel's boot id, the end by CLOCK_BOOTTIME (s), and the content."""

    boot: str
    expires_s: float
    content: msgspec.Raw


class Agreed(msgspec.Struct, frozen=True, kw_only=True):
    """The work's result as JSON; `is_shared` if another process did the work."""

    content: bytes
    is_shared: bool


class WorkResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result as JSON, and for how many seconds it holds for others."""

    content: bytes
    holds_s: float


def once(
    directory: Path,
    key: str,
    wait_s: float,
    work: Callable[[], WorkResult],
    is_current: Callable[[bytes], bool],
    tell: Callable[[str], None] = lambda _: None,
) -> Agreed:
    """Do `work`, or wait up to `wait_s` for the process that does it, and return the result.

    `directory` is that of machine_directory(), `key` a file name that stands for the work.
    `is_current`: whether an earlier result still holds, by what the caller sees. What `work` raises
    is raised here and holds for nobody. Raises StoreError if the leader takes longer than `wait_s`.
    """
    result = directory / f"{key}.json"
    earlier = _earlier(result, is_current)
    if earlier is not None:
        return Agreed(content=earlier, is_shared=True)
    with _locked(directory / f"{key}.lock", wait_s, tell):
        # The one before us may have done it while we waited.
        earlier = _earlier(result, is_current)
        if earlier is not None:
            return Agreed(content=earlier, is_shared=True)
        done = work()
        # On a full disk the next process does the work again.
        with contextlib.suppress(UsageError):
            expires_s = _uptime() + done.holds_s
            kept = SharedResult(
                boot=_boot(), expires_s=expires_s, content=msgspec.Raw(done.content)
            )
            write_atomically(result, msgspec.json.encode(kept), mode=0o600)
    return Agreed(content=done.content, is_shared=False)


def forget(directory: Path) -> None:
    """Remove all results: the store holds something new. One that cannot be removed expires soon."""
    for path in directory.glob("*.json"):
        with contextlib.suppress(OSError):
            path.unlink()


def _earlier(path: Path, is_current: Callable[[bytes], bool]) -> bytes | None:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=decodable(SharedResult))
    except (OSError, msgspec.MsgspecError):
        return None
    if kept.boot != _boot() or kept.expires_s <= _uptime():
        return None
    content = bytes(kept.content)
    return content if is_current(content) else None


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _uptime() -> float:
    # The wall clock may be set in between; this one is the same for all processes of the machine.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@contextlib.contextmanager
def _locked(path: Path, wait_s: float, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock on the file `path`, which stays. Raises StoreError after `wait_s` seconds."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        message = f"cannot lock {path}: {error.strerror}"
        raise StoreError(StoreFailure.REFUSED, message) from error
    waiting = _Waiting(descriptor)
    if not waiting.taken_within(wait_s, tell):
        message = f"another process restores the same caches, for more than {wait_s:.0f} s"
        raise StoreError(StoreFailure.TIMEOUT, message, hint="allow more with --budget")
    try:
        yield
    finally:
        os.close(descriptor)


class _Waiting:
    """A thread that waits in flock(2): the kernel wakes it, and nobody has to ask again."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._error: OSError | None = None
        self._guard = threading.Lock()
        self._is_given_up = False
        self._done = threading.Event()
        thread = threading.Thread(target=self._wait, name="cache leader", daemon=True)
        thread.start()

    def taken_within(self, seconds: float, tell: Callable[[str], None]) -> bool:
        """Whether the lock is ours; if not, it is let go of as soon as it comes."""
        # A signal interrupts this wait, and the lock ends with the process.
        limit = Deadline(seconds)
        while not self._done.wait(min(_TELLS_S, limit.left())) and limit.left():
            tell("waiting for another process that restores the same caches")
        with self._guard:
            self._is_given_up = not self._done.is_set()
        if self._error is not None and not self._is_given_up:
            os.close(self._descriptor)
            message = f"cannot wait for other processes: {self._error.strerror}"
            raise StoreError(StoreFailure.REFUSED, message)
        return not self._is_given_up

    def _wait(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as error:
            self._error = error
        with self._guard:
            if self._is_given_up:
                os.close(self._descriptor)
            self._done.set()
