# SPDX-License-Identifier: Apache-2.0
"""Reads the places where things outlive their makers, and what a process holds of them."""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.facts.launch import LeftKind
from ci_doctor.system.processes.process_table import read_table

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - read, not written
# Shorter numbers stand in names by chance.
_PID = re.compile(r"(?<!\d)\d{3,}(?!\d)")
_GETPID = 11  # semctl(2), linux/sem.h
_SHM_INFO = 14  # linux/shm.h
_TABLES = {
    LeftKind.SYSV_SHARED_MEMORY: ("shm", "shmid", ("cpid", "lpid")),
    LeftKind.SYSV_SEMAPHORES: ("sem", "semid", ()),
    LeftKind.SYSV_QUEUE: ("msg", "msqid", ("lspid", "lrpid")),
}


class IpcObject(Struct, frozen=True, kw_only=True):
    """A System V object: its owner, and the processes that its table names (proc(5)).

    Of a segment, `taken` are the bytes of the pages that were touched, `attached` counts who uses it.
    """

    kind: LeftKind
    id: int
    uid: int
    pids: tuple[int, ...]
    size: int | None
    taken: int = 0
    attached: int = 0


class PlacesSnapshot(Struct, frozen=True, kw_only=True):
    """What is there now: the inode of each entry of the folders by path, System V objects by id.

    `unseen` are the places that could not be read, each with the reason. A place that is not there
    holds nothing.
    """

    files: Mapping[str, int]
    objects: Mapping[tuple[LeftKind, int], IpcObject]
    unseen: Mapping[str, str] = {}


def snapshot(folders: Iterable[str]) -> PlacesSnapshot:
    """Look into `folders`, and into the tables of System V."""
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


def taken_by(path: str) -> int:
    """The bytes that a file takes; 0 for a directory, and for what is gone."""
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            return status.st_blocks * 512  # stat(2): in units of 512 bytes
    return 0


def pids_in_name(path: str) -> Iterator[int]:
    """The numbers in the name of a file that may be pids, as most libraries name theirs."""
    return map(int, _PID.findall(path.rpartition("/")[2]))


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
            taken=int(values.get("rss", size or 0)) + int(values.get("swap", 0)),
            attached=int(values.get("nattch", 0)),
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


_DELETED = " (deleted)"
_READ_BYTES = 1 << 20


class HeldResources(Struct, frozen=True, kw_only=True):
    """What a process holds: `paths` open or mapped, `named` in its command line or environment.

    `sockets` are paths that it is bound to, `ports` those that it listens on by the socket's inode.
    """

    uid: int
    paths: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    sockets: frozenset[str] = frozenset()
    ports: Mapping[int, int] = {}


def holding(
    pid: int,
    new: Collection[str],
    bound: Mapping[int, str],
    listening: Mapping[int, int],
) -> HeldResources | None:
    """What the process `pid` holds of the entries `new`; None if it has ended.

    `bound` and `listening` are the kernel's tables of sockets: path or port by inode.
    Raises PermissionError if we may not look into it.
    """
    try:
        uid = Path(f"/proc/{pid}").stat().st_uid
        links = list(_links(pid))
        paths = set(_entries_among(links, new))
        sockets = {_inode(link) for link in links} & {*bound, *listening}
        named: set[str] = set()
        # The rest costs more, and is of use only if there is something to find.
        if new:
            paths.update(_mapped(pid, new, _by_inode(new)))
            named.update(_named(pid, new))
        return HeldResources(
            uid=uid,
            paths=frozenset(paths),
            named=frozenset(named),
            sockets=frozenset(_bound(pid, sockets, bound)),
            ports={inode: listening[inode] for inode in sockets if inode in listening},
        )
    except (FileNotFoundError, ProcessLookupError):
        return None


def in_use(paths: Collection[str], readers: Collection[int] | None = None) -> frozenset[str]:
    """Those of `paths` that some process holds: another job's, or one that goes on with them.

    A process that is none of the `readers` holds nothing by a descriptor that only reads: it copies
    or watches the file. None stands for all processes. Raises OSError if nobody can tell.
    """
    if not paths:
        return frozenset()
    held = set(bound_sockets().values()).intersection(paths)
    by_inode = _by_inode(paths)
    for kin in read_table():
        # Ended, or of another user.
        with contextlib.suppress(OSError):
            only_writes = readers is not None and kin.pid not in readers
            held.update(_entries_among(_links(kin.pid, only_writes=only_writes), paths))
            held.update(_mapped(kin.pid, paths, by_inode))
    return frozenset(held)


def _links(pid: int, *, only_writes: bool = False) -> Iterator[str]:
    """Where its file descriptors and its working directory lead; of shared memory perhaps none that only reads."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):  # noqa: PTH208 - thousands of Path objects
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            link = os.readlink(f"{folder}/{name}")  # noqa: PTH115
            if not only_writes or not link.startswith(SHARED_MEMORY) or _writes(pid, name):
                yield link
    yield os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115


def _writes(pid: int, descriptor: str) -> bool:
    text = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text()
    flags = next(line.split()[1] for line in text.splitlines() if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _by_inode(new: Iterable[str]) -> dict[tuple[str, str], str]:
    """The entries by device and inode, as /proc/PID/maps writes them (proc_pid_maps(5))."""
    wanted = {}
    for path in new:
        with contextlib.suppress(OSError):
            status = os.lstat(path)
            device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
            wanted[device, str(status.st_ino)] = path
    return wanted


def _mapped(
    pid: int, new: Collection[str], by_inode: Mapping[tuple[str, str], str]
) -> Iterator[str]:
    """The entries of `new` that it maps, by name, or under a name that is gone.

    sem_open(3) links its file, and unlinks the first name.
    """
    with open(f"/proc/{pid}/maps", errors="surrogateescape") as file:  # noqa: PTH123
        text = file.read()
    files = set()
    for line in text.splitlines():
        fields = line.split(None, 5)
        # Five without a file. A library is mapped in several parts.
        if len(fields) == 6:
            files.add((fields[3], fields[4], fields[5]))
    yield from _entries_among([name for _, _, name in files], new)
    for device, inode, _ in files:
        path = by_inode.get((device, inode))
        if path:
            yield path


def _entries_among(paths: Iterable[str], new: Collection[str]) -> Iterator[str]:
    """The entries of `new` that are among `paths`, or hold one of them."""
    folders = {os.path.dirname(entry) for entry in new}  # noqa: PTH120 - thousands of them
    for path in paths:
        if path.endswith(_DELETED):
            continue
        for folder in folders:
            if not path.startswith(f"{folder}/"):
                continue
            entry = "/".join((folder, path[len(folder) + 1 :].partition("/")[0]))
            if entry in new:
                yield entry


def _named(pid: int, new: Collection[str]) -> Iterator[str]:
    """The entries that stand in its command line or its environment, as whole names."""
    for source in ("cmdline", "environ"):
        with open(f"/proc/{pid}/{source}", "rb") as file:  # noqa: PTH123
            content = file.read(_READ_BYTES).decode(errors="surrogateescape")
        for path in new:
            _, separator, rest = content.partition(path)
            if separator and not (rest[:1].isalnum() or rest[:1] in {"_", "-", "."}):
                yield path


def _inode(link: str) -> int:
    """That of `socket:[4242]`; -1 for other links."""
    return -1 if not link.startswith("socket:[") else int(link[8:-1])


def _bound(pid: int, inodes: Collection[int], bound: Mapping[int, str]) -> Iterator[str]:
    for inode in inodes:
        path = bound.get(inode)
        if path is None:
            continue
        if not path.startswith("/"):
            path = os.path.join(os.readlink(f"/proc/{pid}/cwd"), path)  # noqa: PTH115, PTH118
        yield path
