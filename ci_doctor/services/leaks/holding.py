# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: which of the new things a process holds: open, mapped, or by name."""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.services.leaks.places import bound_sockets
from ci_doctor.system.processes.process_table import read_table

_DELETED = " (deleted)"
_READ_BYTES = 1 << 20


class Tables(Struct, frozen=True, kw_only=True):
    """The kernel's tables of sockets: path or port by inode."""

    sockets: Mapping[int, str]
    ports: Mapping[int, int]


class HeldResources(Struct, frozen=True, kw_only=True):
    """What a process holds: `paths` open or mapped, `named` in its command line or environment.

    `sockets` are paths that it is bound to, `ports` those that it listens on by the socket's inode.
    """

    uid: int
    paths: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    sockets: frozenset[str] = frozenset()
    ports: Mapping[int, int] = {}


def holding(pid: int, new: Collection[str], tables: Tables) -> HeldResources | None:
    """What the process `pid` holds of the entries `new`; None if it has ended.

    Raises PermissionError if we may not look into it.
    """
    try:
        uid = Path(f"/proc/{pid}").stat().st_uid
        links = list(_links(pid))
        paths = set(_entries(links, new))
        sockets = {_inode(link) for link in links} & {*tables.sockets, *tables.ports}
        named: set[str] = set()
        # The rest costs more, and is of use only if there is something to find.
        if new:
            paths.update(_mapped(pid, new, _by_inode(new)))
            named.update(_named(pid, new))
        return HeldResources(
            uid=uid,
            paths=frozenset(paths),
            named=frozenset(named),
            sockets=frozenset(_bound(pid, sockets, tables)),
            ports={inode: tables.ports[inode] for inode in sockets if inode in tables.ports},
        )
    except (FileNotFoundError, ProcessLookupError):
        return None


def in_use(paths: Collection[str]) -> frozenset[str]:
    """Those of `paths` that some process holds: another job's, or one that goes on with them.

    Raises OSError if nobody can tell.
    """
    if not paths:
        return frozenset()
    held = set(bound_sockets().values()).intersection(paths)
    by_inode = _by_inode(paths)
    for kin in read_table():
        # Ended, or of another user.
        with contextlib.suppress(OSError):
            held.update(_entries(_links(kin.pid), paths))
            held.update(_mapped(kin.pid, paths, by_inode))
    return frozenset(held)


def _links(pid: int) -> Iterator[str]:
    """Where its file descriptors and its working directory lead."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):  # noqa: PTH208 - thousands of Path objects
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            yield os.readlink(f"{folder}/{name}")  # noqa: PTH115
    yield os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115


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
    yield from _entries([name for _, _, name in files], new)
    for device, inode, _ in files:
        path = by_inode.get((device, inode))
        if path:
            yield path


def _entries(paths: Iterable[str], new: Collection[str]) -> Iterator[str]:
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
    if not link.startswith("socket:["):
        return -1
    return int(link[8:-1])


def _bound(pid: int, inodes: Collection[int], tables: Tables) -> Iterator[str]:
    for inode in inodes:
        path = tables.sockets.get(inode)
        if path is None:
            continue
        if not path.startswith("/"):
            path = os.path.join(os.readlink(f"/proc/{pid}/cwd"), path)  # noqa: PTH115, PTH118
        yield path
