# SPDX-License-Identifier: Apache-2.0
"""Reads the places where things outlive their makers: folders, System V tables, sockets."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.service import LeftKind

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - read, not written
_GETPID = 11  # semctl(2), linux/sem.h
_SHM_INFO = 14  # linux/shm.h
_TABLES = {
    LeftKind.SYSV_SHARED_MEMORY: ("shm", "shmid", ("cpid", "lpid")),
    LeftKind.SYSV_SEMAPHORES: ("sem", "semid", ()),
    LeftKind.SYSV_QUEUE: ("msg", "msqid", ("lspid", "lrpid")),
}


class IpcObject(Struct, frozen=True, kw_only=True):
    """A System V object: its owner, and the processes that its table names (proc(5))."""

    kind: LeftKind
    id: int
    uid: int
    pids: tuple[int, ...]
    size: int | None


class PlacesSnapshot(Struct, frozen=True, kw_only=True):
    """What is there now: the inode of each entry of the folders by path, System V objects by id.

    `unseen` are the places that could not be read, each with the reason. A place that is not there
    holds nothing.
    """

    files: Mapping[str, int]
    objects: Mapping[tuple[LeftKind, int], IpcObject]
    unseen: Mapping[str, str] = {}


def snapshot(folders: Iterable[str]) -> PlacesSnapshot:
    """Look into `folders`, not below, and into the tables of System V."""
    files: dict[str, int] = {}
    objects: dict[tuple[LeftKind, int], IpcObject] = {}
    unseen: dict[str, str] = {}
    for folder in folders:
        try:
            files |= _entries(folder)
        except OSError as error:
            unseen[folder] = os.strerror(error.errno or errno.EIO)
    for kind, (name, *_) in _TABLES.items():
        table = f"/proc/sysvipc/{name}"
        try:
            objects |= {(kind, ipc_object.id): ipc_object for ipc_object in _objects(kind, table)}
        except OSError as error:
            unseen[table] = os.strerror(error.errno or errno.EIO)
    return PlacesSnapshot(files=files, objects=objects, unseen=unseen)


def _entries(folder: str) -> dict[str, int]:
    # What is not there, or is no folder, holds nothing.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return {entry.path: entry.inode() for entry in entries}
    return {}


def _objects(kind: LeftKind, table: str) -> Iterator[IpcObject]:
    _, id_column, pid_columns = _TABLES[kind]
    try:
        head, *lines = Path(table).read_text().splitlines()
    except FileNotFoundError:
        if _has_system_v():
            raise
        return
    columns = head.split()
    for line in lines:
        values = dict(zip(columns, line.split(), strict=False))
        size = int(values["size"]) if "size" in values else None
        yield IpcObject(
            kind=kind,
            id=int(values[id_column]),
            uid=int(values["uid"]),
            pids=tuple(int(values[column]) for column in pid_columns),
            size=size,
        )


def _has_system_v() -> bool:
    """Whether the kernel has System V IPC; /proc does not show it if mounted with `subset=pid`."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    # Room for struct shm_info, whichever the architecture: the call is only asked whether it is
    # there (shmctl(2)).
    libc.shmctl(0, _SHM_INFO, ctypes.create_string_buffer(256))
    return ctypes.get_errno() != errno.ENOSYS


def semaphore_pids(number: int) -> frozenset[int]:
    """The processes that used each semaphore of a set last: its table names none."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    pids: set[int] = set()
    index = 0
    while (pid := libc.semctl(number, index, _GETPID)) >= 0:
        pids.add(pid)
        index += 1
    return frozenset(pids)


def bound_sockets() -> dict[int, str]:
    """The path of each unix socket that is bound to one, by the socket's inode (proc_net(5)).

    Raises OSError if the table cannot be read.
    """
    paths = {}
    for line in _lines("/proc/self/net/unix"):
        # Seven fields, and the path if there is one; `@` begins a name without a file.
        fields = line.split(None, 7)
        if len(fields) == 8 and not fields[7].startswith("@"):
            paths[int(fields[6])] = fields[7]
    return paths


def _lines(path: str) -> Iterator[str]:
    """Those of a table of the kernel, without its header; none of a protocol that it lacks."""
    try:
        text = Path(path).read_text(errors="surrogateescape")
    except FileNotFoundError:
        return
    yield from text.splitlines()[1:]
