# SPDX-License-Identifier: Apache-2.0
"""Reads the machine before a start, while it runs and after its stop: what its services left.

No polling: the places are looked at before the first start, when a service is ready or taken down,
when the stop begins, and after it. What a process made and closed in between, in a folder that
others use too, belongs to nobody known.
"""

import contextlib
import errno
import functools
import os
import re
import shlex
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import tomli
from msgspec import Struct, convert, structs

from ci_doctor.decodable import decodable
from ci_doctor.model.facts.launch import LeftBehind, LeftKind, LeftThing
from ci_doctor.system.files.access import is_own_name
from ci_doctor.system.processes.listeners import listening_ports
from ci_doctor.system.processes.process_table import Kin, read_table, still_lives

# --- the places where things outlive their makers, and what a process holds of them ---

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
        sockets = {_socket_inode(link) for link in links} & {*bound, *listening}
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


def _socket_inode(link: str) -> int:
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


_IPCRM = {
    LeftKind.SYSV_SHARED_MEMORY: "-m",
    LeftKind.SYSV_SEMAPHORES: "-s",
    LeftKind.SYSV_QUEUE: "-q",
}


def removal(kind: LeftKind, name: str) -> str | None:
    """The command that removes it; None if only its owner can, or if a directory of ours takes it along."""
    if any(map(is_own_name, name.split("/")[:-1])):
        return None
    if kind in _IPCRM:
        return f"ipcrm {_IPCRM[kind]} {name}"
    if kind is LeftKind.PORT:
        return f"ss -ltnp 'sport = :{name}'"
    if kind is LeftKind.PROCESS:
        return f"kill {name}"
    if kind is LeftKind.TEMPORARY_DIRECTORY:
        return f"rm -r {shlex.quote(name)}"
    return f"rm {shlex.quote(name)}"


# Semaphores are files there too, of some bytes; they are not what makes a machine run out of
# memory.
_LEAST_MEMORY = 1024 * 1024


TEMPORARY = "/tmp"  # noqa: S108 - read, not written


class LeakPolicy(Struct, frozen=True, kw_only=True):
    """What is made of what a service leaves behind.

    `allowed` are patterns of names (fnmatch) that it may leave. `temporary` is its $TMPDIR;
    `is_own` tells that only its own variables name it, so that everything new there is its.
    """

    mode: Literal["report", "strict", "off"] = "report"
    allowed: tuple[str, ...] = ()
    temporary: str = TEMPORARY
    is_own: bool = False


class LeakLedger:
    """Made before the first start of a group. `spared` are folders of ours, which stay."""

    def __init__(self, policies: Mapping[str, LeakPolicy], spared: Iterable[str] = ()) -> None:
        watched = {name: policy for name, policy in policies.items() if policy.mode != "off"}
        self._policies = dict(policies)
        self._spared = tuple(map(os.path.realpath, spared))
        self._own: dict[str, list[str]] = {}
        folders = {SHARED_MEMORY, TEMPORARY} if watched else {SHARED_MEMORY}
        for name, policy in watched.items():
            folder = os.path.realpath(policy.temporary)
            folders.add(folder)
            if policy.is_own:
                self._own.setdefault(folder, []).append(name)
        self._before = snapshot(sorted(folders))
        # What was there before is not known of the others.
        self._folders = tuple(sorted(folders - set(self._before.unseen)))
        # Which services had to do with a path, each with the reason; and whose a process is.
        self._by_path: dict[str, dict[str, str]] = {}
        self._by_pid: dict[int, str] = {}
        self._uids: dict[str, set[int]] = {}
        self._sockets: dict[tuple[str, int], dict[str, str]] = {}
        self._ports: dict[int, tuple[int, str, str]] = {}
        self._unseen: dict[str, set[str]] = {}
        self._left: LeftBehind | None = None
        self._cannot_see_places(self._before)

    def belong(self, service: str, pids: Iterable[int]) -> None:
        """These processes are or were processes of `service`."""
        for pid in pids:
            self._by_pid.setdefault(pid, service)

    def witness(self, service: str, processes: Callable[[], Iterable[Kin]]) -> None:
        """Look at what the processes of `service` hold now."""
        if service not in self._policies:
            return
        try:
            self._look(service, processes())
        except OSError as error:  # no file descriptor is left to look with
            self._cannot_see(str(error.strerror), [service])

    def _look(self, service: str, processes: Iterable[Kin]) -> None:
        new = self._new(snapshot(self._folders))
        sockets, ports = bound_sockets(), listening_ports()
        for kin in processes:
            self.belong(service, [kin.pid])
            process = f"{kin.name} (pid {kin.pid})"
            try:
                held = holding(kin.pid, new, sockets, ports)
            except PermissionError:
                # A zombie, too, is closed to its own user; it holds nothing any more.
                if still_lives(kin):
                    self._cannot_see(process, [service])
                continue
            if held is not None:
                self._note(service, process, held)

    def unused_memory(self, service: str) -> tuple[LeftThing, ...]:
        """New shared memory of 1 MiB or more that `service` held, made or named, and nobody uses.

        Who is no process of these services and only reads it, as a copy or a watch does, uses nothing.
        """
        now = snapshot([SHARED_MEMORY])
        sizes = {path: taken_by(path) for path in sorted(self._new(now))}
        sizes = {path: count for path, count in sizes.items() if count >= _LEAST_MEMORY}
        used = set(sizes)  # what nobody can tell of is not held against anybody
        with contextlib.suppress(OSError):
            used = set(in_use(used, self._by_pid))
        left = []
        for path in sorted(sizes.keys() - used):
            owners = self._makers_of(path)
            if service in owners:
                why = {service: owners[service]}
                left.append(_thing(_kind(path, 0), path, why, sizes[path]))
        for key, segment in now.objects.items():
            is_new = segment.kind is LeftKind.SYSV_SHARED_MEMORY and key not in self._before.objects
            if is_new and not segment.attached and segment.taken >= _LEAST_MEMORY:
                makers = self._makers_by(segment.pids, f"{segment.kind} of pid")
                if service in makers:
                    left.append(_thing(segment.kind, str(segment.id), makers, segment.taken))
        return tuple(left)

    def _makers_of(self, path: str) -> dict[str, str]:
        """The services of a path, each with the reason: those seen with it, else those it names."""
        return self._by_path.get(path) or self._makers_by(
            pids_in_name(path), "its name holds the pid"
        )

    def _makers_by(self, pids: Iterable[int], why: str) -> dict[str, str]:
        return {self._by_pid[pid]: f"{why} {pid}" for pid in pids if pid in self._by_pid}

    def settled(self) -> LeftBehind:
        """What is left, once nothing of the services runs any more; every later call's answer."""
        if self._left is None:
            self._left = self._settle()
        return self._left

    def _settle(self) -> LeftBehind:
        if all(policy.mode == "off" for policy in self._policies.values()):
            return LeftBehind()
        now = snapshot(self._folders)
        self._cannot_see_places(now)
        unknown: Counter[str] = Counter()
        things: list[LeftThing] = []
        looks = (self._files(now, unknown), self._objects(now), self._bound(), self._listening())
        for look in looks:
            # A stop must come to its end all the same.
            with self._as_far_as_seen():
                things.extend(look)
        things = list(filter(self._is_wanted, things))
        used: frozenset[str] = frozenset()
        with self._as_far_as_seen():  # what nobody can tell of counts as left
            used = in_use({thing.name for thing in things if thing.name.startswith("/")})
        things = [thing for thing in things if thing.name not in used]
        return LeftBehind(
            things=tuple(map(self._graded, _outermost(things))),
            unknown=dict(unknown),
            unseen=tuple(
                what for what, services in self._unseen.items() if self._is_strict(services)
            ),
        )

    @contextlib.contextmanager
    def _as_far_as_seen(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._cannot_see(str(error.strerror), self._policies)

    def _cannot_see_places(self, snapshot: PlacesSnapshot) -> None:
        for place, why in snapshot.unseen.items():
            self._cannot_see(f"{place} ({why})", self._policies)

    def _cannot_see(self, what: str, services: Iterable[str]) -> None:
        self._unseen.setdefault(what, set()).update(services)

    def _note(self, service: str, process: str, held: HeldResources) -> None:
        self._uids.setdefault(service, set()).add(held.uid)
        for paths, how in (
            (held.paths, "held"),
            (held.named, "named"),
            (map(os.path.dirname, held.sockets), "bound in"),
        ):
            for path in paths:
                self._by_path.setdefault(path, {}).setdefault(service, f"{how} by {process}")
        for path in held.sockets:
            inode = _inode(path)
            if inode is not None:
                owners = self._sockets.setdefault((path, inode), {})
                owners.setdefault(service, f"bound by {process}")
        for inode, port in held.ports.items():
            self._ports.setdefault(inode, (port, service, process))

    def _new(self, now: PlacesSnapshot) -> frozenset[str]:
        """The entries of the folders that were not there before."""
        before = self._before.files
        new = [path for path, inode in now.files.items() if before.get(path) != inode]
        ours = [f"{own}/" for own in self._spared]
        return frozenset(
            path for path in new if not any(own.startswith(f"{path}/") for own in ours)
        )

    def _files(self, now: PlacesSnapshot, unknown: "Counter[str]") -> Iterator[LeftThing]:
        for path in sorted(self._new(now)):
            try:
                status = os.lstat(path)
            except OSError:  # it goes just now
                continue
            owners = self._owners(path, status.st_uid)
            if not owners:
                unknown[os.path.dirname(path)] += 1  # noqa: PTH120
                continue
            is_directory = stat.S_ISDIR(status.st_mode)
            kind = _kind(path, status.st_mode)
            size = None if is_directory else status.st_blocks * 512  # stat(2)
            yield _thing(kind, path, owners, size)

    def _owners(self, path: str, uid: int) -> dict[str, str]:
        owners = dict(self._makers_of(path))
        for name in self._own.get(os.path.dirname(path), ()):  # noqa: PTH120
            owners.setdefault(name, f"in the TMPDIR of {name} alone")
        # Whoever may write there may hold what another user has made.
        return {name: why for name, why in owners.items() if uid in self._uids.get(name, {uid})}

    def _objects(self, now: PlacesSnapshot) -> Iterator[LeftThing]:
        for key, ipc_object in now.objects.items():
            if key in self._before.objects:
                continue
            pids: Iterable[int] = ipc_object.pids
            if ipc_object.kind is LeftKind.SYSV_SEMAPHORES:
                pids = sorted(semaphore_pids(ipc_object.id))
            owners = self._makers_by(pids, f"{ipc_object.kind} of pid")
            if owners:
                yield _thing(ipc_object.kind, str(ipc_object.id), owners, ipc_object.size)

    def _bound(self) -> Iterator[LeftThing]:
        taken = set(bound_sockets().values())
        for (path, inode), owners in self._sockets.items():
            # Bound again, it is in use, by whomever.
            if _inode(path) == inode and path not in taken:
                yield _thing(LeftKind.SOCKET, path, owners, None)

    def _listening(self) -> Iterator[LeftThing]:
        now = listening_ports()
        for inode, (port, service, process) in self._ports.items():
            if now.get(inode) == port:
                why = f"listened on by {process}"
                yield _thing(LeftKind.PORT, str(port), {service: why}, None)

    def _is_wanted(self, thing: LeftThing) -> bool:
        policies = [self._policies[name] for name in thing.services]
        patterns = [pattern for policy in policies for pattern in policy.allowed]
        is_allowed = any(fnmatchcase(thing.name, pattern) for pattern in patterns)
        return not is_allowed and any(policy.mode != "off" for policy in policies)

    def _graded(self, thing: LeftThing) -> LeftThing:
        strict = self._is_strict(thing.services)
        return structs.replace(thing, strict=strict, known=known(thing, self._folders))

    def _is_strict(self, services: Iterable[str]) -> bool:
        return any(self._policies[name].mode == "strict" for name in services)


class _Known(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of leaks.toml."""

    what: str
    kinds: tuple[LeftKind, ...]
    path: str
    source: str


@functools.cache
def _known_rows() -> tuple[_Known, ...]:
    text = Path(__file__).with_name("leaks.toml").read_text(encoding="utf-8")
    return convert(tomli.loads(text)["left"], decodable(tuple[_Known, ...]))


def known(thing: LeftThing, folders: Iterable[str]) -> str | None:
    """What the thing is, if a known program leaves such things by design in one of `folders`."""
    paths = [thing.name.removeprefix(f"{folder}/") for folder in folders]
    # A socket may be bound in any folder (VLLM_RPC_BASE_PATH).
    paths.append(os.path.basename(thing.name))  # noqa: PTH119
    for known_row in _known_rows():
        matches = (re.fullmatch(known_row.path, path) for path in paths)
        if thing.kind in known_row.kinds and any(matches):
            return known_row.what
    return None


def _thing(kind: LeftKind, name: str, owners: Mapping[str, str], size: int | None) -> LeftThing:
    return LeftThing(
        kind=kind,
        name=name,
        services=tuple(owners),
        why=next(iter(owners.values())),
        size=size,
        remedy=removal(kind, name),
    )


def _kind(path: str, mode: int) -> LeftKind:
    if stat.S_ISSOCK(mode):
        return LeftKind.SOCKET
    if stat.S_ISDIR(mode):
        return LeftKind.TEMPORARY_DIRECTORY
    folder, _, name = path.rpartition("/")
    if folder != SHARED_MEMORY:
        return LeftKind.TEMPORARY_FILE
    # The kernel's library names them so: sem_overview(7).
    if name.startswith("sem."):
        return LeftKind.SEMAPHORE
    return LeftKind.SHARED_MEMORY


def _inode(path: str) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None


def _outermost(things: Iterable[LeftThing]) -> Iterator[LeftThing]:
    """Without what lies in a directory that is left itself, and each thing once."""
    by_name = {(thing.kind, thing.name): thing for thing in things}
    directories = [
        thing.name for thing in by_name.values() if thing.kind is LeftKind.TEMPORARY_DIRECTORY
    ]
    for thing in by_name.values():
        if not any(thing.name.startswith(f"{name}/") for name in directories):
            yield thing
