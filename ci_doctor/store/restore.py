# SPDX-License-Identifier: Apache-2.0
"""Acts on the tree that a cache is restored to: staged beside it, verified, then moved there."""

import contextlib
import enum
import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from pathlib import Path
from typing import Final

import msgspec

from ci_doctor.errors import UsageError
from ci_doctor.store.manifest import (
    FRAME_BYTES,
    FileEntry,
    Manifest,
    StoredFrame,
    check_manifest,
    decompress_into,
    pack_name,
)
from ci_doctor.store.objects import (
    DamagedError,
    ObjectStore,
    StoreError,
    StoreFailure,
    StoreLimits,
    file_system_error,
)
from ci_doctor.store.plan import (
    FetchPlan,
    Merge,
    MergePlan,
    PresentFile,
    Run,
    default_group,
    plan_fetch,
    plan_merge,
)
from ci_doctor.store.transfer import Deadline, ThreadBuffer, digest, few_threads, thread_buffer
from ci_doctor.system.files.access import (
    abandoned_directories,
    make_directory,
    own_directory,
    remove_abandoned,
)

# --- writes files into it that nobody else can see yet ---

_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
TREE_NAME: Final = "tree"


class Stage:
    """An empty directory named `tree` in `folder`, which only this user may enter, and what is put there.

    The paths of entries were checked. The directories on the way are our own, so none is a link.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / TREE_NAME
        self.path.mkdir(mode=0o755)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = os.open(self.path, flags)

    def make_folders(self, paths: Iterable[str]) -> None:
        """Make the directories in which files of `paths` lie."""
        made = {""}
        for path in paths:
            _make(path.rpartition("/")[0], made, self.descriptor)

    def write(
        self, entry: FileEntry, content: bytes | memoryview, *, own_time: bool = False
    ) -> None:
        """Write the file of `entry`, with its mode and, unless `own_time`, its time. Raises OSError."""
        descriptor = os.open(entry.path, _WRITE, _mode(entry.mode), dir_fd=self.descriptor)
        try:
            _write_all(descriptor, content)
            if not own_time:
                os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(descriptor)

    def write_parts(self, entry: FileEntry, parts: Iterable[memoryview]) -> None:
        """Write the file of `entry` from several parts. Raises OSError."""
        descriptor = os.open(entry.path, _WRITE, _mode(entry.mode), dir_fd=self.descriptor)
        try:
            for part in parts:
                _write_all(descriptor, part)
            os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the descriptor; the directory stays."""
        os.close(self.descriptor)


def _make(folder: str, made: set[str], root: int) -> None:
    missing = []
    while folder not in made:
        missing.append(folder)
        folder = folder.rpartition("/")[0]
    for each in reversed(missing):
        os.mkdir(each, 0o755, dir_fd=root)
        made.add(each)


def _mode(mode: int) -> int:
    return 0o755 if mode & 0o100 else 0o644


def _write_all(descriptor: int, part: bytes | memoryview) -> None:
    written = os.write(descriptor, part)
    if written == len(part):
        return
    rest = memoryview(part)[written:]
    while rest:
        rest = rest[os.write(descriptor, rest) :]


# --- fetches frames from a store, verifies each by its digest, and writes their files ---
# What is verified is the frame as it is stored: the decompressor never gets a byte that the manifest
# did not promise. A file's own digest is for looking at what was installed, later.

_THREADS: Final = 2


class Unpacking:
    """The files of one manifest on their way from a store into a stage."""

    def __init__(
        self,
        store: ObjectStore,
        manifest: Manifest,
        stage: Stage,
        rewrite: Callable[[str, bytes], bytes] | None,
        deadline: Deadline,
    ) -> None:
        self._store = store
        self._manifest = manifest
        self._stage = stage
        self._write = _writer(stage, rewrite)
        self._deadline = deadline

    def all(self, plan: FetchPlan) -> int:
        """Write all files of `plan`; the bytes that were fetched.

        Raises StoreError from the store or if time is up, DamagedError if a frame is not what the
        manifest says, OSError if it cannot be written. A file of several frames is not rewritten.
        """
        with few_threads(_THREADS) as workers:
            for entry in plan.empty:
                self._write(entry, b"")
            futures = [workers.submit(self._large, entry) for entry in plan.large]
            futures += [workers.submit(self._run, run, plan.by_frame) for run in plan.runs]
            return sum(future.result() for future in as_completed(futures))

    def _run(self, run: Run, by_frame: dict[int, list[FileEntry]]) -> int:
        self._deadline.check("restoring")
        fetched = self._fetch(run.pack, run.offset, run.bytes)
        for index in run.frames:
            frame = self._manifest.frames[index]
            start = frame.offset - run.offset
            raw = self._content(frame, fetched[start : start + frame.bytes])
            for entry in by_frame[index]:
                begin = entry.pieces[0].offset
                self._write(entry, raw[begin : begin + entry.bytes])
        return len(fetched)

    def _large(self, entry: FileEntry) -> int:
        frames = [self._manifest.frames[piece.frame] for piece in entry.pieces]
        parts = (self._content(frame, self._fetch_frame(frame)) for frame in frames)
        self._stage.write_parts(entry, parts)
        return sum(frame.bytes for frame in frames)

    def _fetch_frame(self, frame: StoredFrame) -> memoryview:
        self._deadline.check("restoring")
        return self._fetch(frame.pack, frame.offset, frame.bytes)

    def _fetch(self, pack: int, offset: int, length: int) -> memoryview:
        """A part of a pack, in a buffer that is this thread's until it fetches again."""
        buffer = thread_buffer(ThreadBuffer.STORED, length)
        self._store.read_range(self._name(pack), offset, buffer)
        return buffer

    def _content(self, frame: StoredFrame, stored: memoryview) -> memoryview:
        """What the frame holds, in a buffer that is this thread's until the next frame."""
        if digest(stored) != frame.digest:
            raise DamagedError(
                f"{self._name(frame.pack)} is damaged: a frame has another digest than in the manifest"
            )
        buffer = thread_buffer(ThreadBuffer.RAW, FRAME_BYTES)[: frame.raw_bytes]
        size = decompress_into(stored, buffer)
        if size != frame.raw_bytes:
            raise DamagedError(f"a frame holds {size} bytes instead of {frame.raw_bytes}")
        return buffer

    def _name(self, pack: int) -> str:
        reference = self._manifest.packs[pack]
        return pack_name(reference.scope, reference.digest)


def _writer(
    stage: Stage, rewrite: Callable[[str, bytes], bytes] | None
) -> Callable[[FileEntry, bytes | memoryview], None]:
    """The function that writes a file, with the content that is right for this place."""
    if rewrite is None:
        return stage.write

    def write(entry: FileEntry, content: bytes | memoryview) -> None:
        old = bytes(content)
        new = rewrite(entry.path, old)
        # Another content with the same time and, maybe, the same size would pass for the saved one.
        stage.write(entry, new, own_time=new != old)

    return write


# --- moves staged files there and overwrites nothing ---
# Each directory on the way is opened from the one above it and is never a link, so a link that is
# planted meanwhile leads nowhere.

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)
_TAKEN: Final = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY)


def install_files(
    stage: int, target: int, entries: Iterable[FileEntry], markers: Callable[[str], bool]
) -> list[FileEntry]:
    """Link staged files into the open directory `target`, `markers` last; those whose path was free.

    Raises StoreError if a link or a file stands where a directory is needed, or if the file system
    has no hard links; OSError if the kernel refuses.
    """
    installed = []
    ordered = sorted(entries, key=lambda entry: (markers(entry.path), entry.path))
    with contextlib.ExitStack() as opened:
        last: str | None = None
        folder = target
        for entry in ordered:
            above, _, name = entry.path.rpartition("/")
            if above != last:
                opened.close()
                folder = opened.enter_context(_folder(target, above))
                last = above
            if _link(entry.path, stage, name, folder):
                installed.append(entry)
    return installed


def install_directory(stage: int, target: int, path: str) -> bool:
    """Rename a staged directory into the open directory `target`; False if its path is taken."""
    above, _, name = path.rpartition("/")
    with _folder(target, above) as folder:
        try:
            os.rename(path, name, src_dir_fd=stage, dst_dir_fd=folder)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            raise
    return True


def _link(path: str, stage: int, name: str, folder: int) -> bool:
    try:
        os.link(path, name, src_dir_fd=stage, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise StoreError(
                StoreFailure.REFUSED,
                f"cannot add {path}: {error.strerror}",
                hint="restore to a directory that does not exist yet, or on another file system",
            ) from error
        raise
    return True


@contextlib.contextmanager
def _folder(root: int, path: str) -> Iterator[int]:
    """The directory at `path` below `root`, open, made where it is missing."""
    descriptor = os.dup(root)
    try:
        for name in filter(None, path.split("/")):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=descriptor)
            below = _open(name, descriptor, path)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _open(name: str, folder: int, path: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=folder)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            message = f"{path} is not a directory: {name} is a link or a file there"
            hint = "remove it, or restore to another directory"
            raise StoreError(StoreFailure.REFUSED, message, hint=hint) from error
        raise


# --- staged beside it, verified, then moved there ---
# The stage is a directory of our own. A restore that is killed leaves it, and the next one removes it.

_PURPOSE: Final = "restore"
_LEFTOVER_AGE_S: Final = 60.0


class RestoreRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a tree is restored. Paths given to the functions are relative, with "/".

    `rewrite` makes the content for this place out of the verified one, of files up to 4 MiB.
    `markers` are the files that make others count: in a tree that exists they come last.
    `group` names what belongs together (None: as `merge` says); of whole directories, their paths.
    """

    deadline: Deadline
    limits: StoreLimits = StoreLimits()
    rewrite: Callable[[str, bytes], bytes] | None = None
    merge: Merge = Merge.UNION
    markers: Callable[[str], bool] = lambda _path: False
    group: Callable[[str], str] | None = None


class Installation(enum.StrEnum):
    """How the files came to their place: all by one rename, or added to a tree that existed."""

    RENAME = "rename"
    MERGE = "merge"


class RestoredTree(msgspec.Struct, frozen=True, kw_only=True):
    """What was installed; files that existed, and their groups, are counted in `kept_existing`."""

    files: int
    bytes: int
    fetched_bytes: int
    kept_existing: int
    installed: Installation
    seconds: float


def restore_tree(
    store: ObjectStore, manifest: Manifest, target: Path, rules: RestoreRules
) -> RestoredTree:
    """Restore the files of `manifest` to `target`, absent or a directory, and overwrite nothing.

    Raises LimitError or DamagedError before anything is fetched or written, if the manifest cannot be
    trusted. StoreError if the store, the disk or the time fails: then nothing was installed, or, in a
    tree that existed, whole groups at most and no marker of an unfinished one.
    """
    check_manifest(manifest, rules.limits)
    started = time.monotonic()
    try:
        if not os.path.lexists(target):
            result = _restore_new(store, manifest, target, rules)
        else:
            result = _restore_into(store, manifest, target, rules)
    except OSError as error:
        raise file_system_error("restore to", target, error) from error
    return msgspec.structs.replace(result, seconds=time.monotonic() - started)


def _restore_new(
    store: ObjectStore, manifest: Manifest, target: Path, rules: RestoreRules
) -> RestoredTree:
    parent = target.parent
    make_directory(parent)
    with _staged(store, manifest, manifest.files, parent, rules) as (stage, fetched):
        try:
            stage.path.rename(target)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
        else:
            return _result(manifest.files, fetched, 0, Installation.RENAME)
        # Somebody was faster: what is staged joins what is there.
        with _opened(target) as root:
            plan = _plan(manifest, root, rules)
            return _merge(stage, root, plan, rules, fetched)


def _restore_into(
    store: ObjectStore, manifest: Manifest, target: Path, rules: RestoreRules
) -> RestoredTree:
    with _opened(target) as root:
        plan = _plan(manifest, root, rules)
        if not plan.entries():
            return _result((), 0, plan.kept_existing, Installation.MERGE)
        with _staged(store, manifest, plan.entries(), target, rules) as (stage, fetched):
            return _merge(stage, root, plan, rules, fetched)


def _merge(
    stage: Stage, root: int, plan: MergePlan, rules: RestoreRules, fetched: int
) -> RestoredTree:
    done: list[FileEntry] = []
    for path, members in plan.directories.items():
        if install_directory(stage.descriptor, root, path):
            done += members
    done += install_files(stage.descriptor, root, plan.files, rules.markers)
    taken = len(plan.entries()) - len(done)
    return _result(done, fetched, plan.kept_existing + taken, Installation.MERGE)


@contextlib.contextmanager
def _staged(
    store: ObjectStore,
    manifest: Manifest,
    entries: Iterable[FileEntry],
    folder: Path,
    rules: RestoreRules,
) -> Iterator[tuple[Stage, int]]:
    """The verified files of `entries` in a directory of ours in `folder`, and the bytes fetched."""
    entries = tuple(entries)
    for path in abandoned_directories(folder, time.time(), _LEFTOVER_AGE_S):
        if f".{_PURPOSE}." in path.name:
            with contextlib.suppress(OSError, UsageError):
                remove_abandoned(path)
    needed = sum(entry.bytes for entry in entries)
    system = os.statvfs(folder)
    free = system.f_bavail * system.f_frsize
    if system.f_blocks and needed > free:
        message = f"{folder} has {free} bytes free, and the files need {needed}"
        hint = "free space there, or choose another directory"
        raise StoreError(StoreFailure.FULL, message, hint=hint)
    with own_directory(_PURPOSE, folder) as name:
        stage = Stage(Path(name))
        try:
            stage.make_folders(entry.path for entry in entries)
            unpacking = Unpacking(store, manifest, stage, rules.rewrite, rules.deadline)
            yield stage, unpacking.all(plan_fetch(manifest, entries, store.range_bytes))
        finally:
            stage.close()


def _plan(manifest: Manifest, root: int, rules: RestoreRules) -> MergePlan:
    group = rules.group or default_group(rules.merge)
    present: dict[str, PresentFile] = {}
    for path in {name for entry in manifest.files for name in (entry.path, group(entry.path))}:
        # NotADirectoryError: a file stands where a directory is needed; installing says so.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = os.stat(path, dir_fd=root, follow_symlinks=False)
            present[path] = PresentFile(bytes=status.st_size, mtime_ns=status.st_mtime_ns)
    return plan_merge(manifest.files, rules.merge, group, present)


@contextlib.contextmanager
def _opened(target: Path) -> Iterator[int]:
    # The target itself may be a link: its name is the user's own word.
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _result(
    entries: Iterable[FileEntry], fetched: int, kept_existing: int, installed: Installation
) -> RestoredTree:
    sizes = [entry.bytes for entry in entries]
    return RestoredTree(
        files=len(sizes),
        bytes=sum(sizes),
        fetched_bytes=fetched,
        kept_existing=kept_existing,
        installed=installed,
        seconds=0.0,
    )
