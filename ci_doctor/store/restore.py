# SPDX-License-Identifier: Apache-2.0
"""Acts on the tree that a cache is restored to: staged beside it, verified, then moved there.

The stage is a directory of our own. A restore that is killed leaves it, and the next one removes it.
"""

import contextlib
import enum
import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from ci_doctor.errors import UsageError
from ci_doctor.store.check_manifest import check_manifest
from ci_doctor.store.deadline import Deadline
from ci_doctor.store.errors import StoreError, StoreFailure, file_system_error
from ci_doctor.store.fetch_plan import plan_fetch
from ci_doctor.store.install import install_directory, install_files
from ci_doctor.store.limits import StoreLimits
from ci_doctor.store.manifest import FileEntry, Manifest
from ci_doctor.store.merge import Merge, MergePlan, PresentFile, default_group, plan_merge
from ci_doctor.store.objects import ObjectStore
from ci_doctor.store.staging import Stage
from ci_doctor.store.unpack import Unpacking
from ci_doctor.system.files.own_directory import (
    abandoned_directories,
    own_directory,
    remove_abandoned,
)
from ci_doctor.system.files.writing import make_directory

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
    _remove_leftovers(folder)
    _check_space(folder, sum(entry.bytes for entry in entries))
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


def _check_space(folder: Path, needed: int) -> None:
    system = os.statvfs(folder)
    free = system.f_bavail * system.f_frsize
    if system.f_blocks and needed > free:
        message = f"{folder} has {free} bytes free, and the files need {needed}"
        hint = "free space there, or choose another directory"
        raise StoreError(StoreFailure.FULL, message, hint=hint)


def _remove_leftovers(folder: Path) -> None:
    for path in abandoned_directories(folder, time.time(), _LEFTOVER_AGE_S):
        if f".{_PURPOSE}." in path.name:
            with contextlib.suppress(OSError, UsageError):
                remove_abandoned(path)


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
