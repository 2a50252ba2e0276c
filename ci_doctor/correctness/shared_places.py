# SPDX-License-Identifier: Apache-2.0
"""Acts on files and reads /proc: which files and memory of other starts does a start read.

Two arms that reach one cache agree, whatever one of them would have computed. So each file that
changed while a start of one arm ran is leased (fcntl(2), F_SETLEASE) while the other arm runs. The
kernel then holds up whoever opens it until ci-doctor has looked who that is: a process of the start
has read what the other arm wrote, any other process goes on and counts for nothing.

Memory and message queues of System V are no files. The kernel's table tells who used them last, so a change
there while a start ran is the start's if that process has ended with it.
"""

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import re
import resource
import signal
import stat
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from ci_doctor.environment.cache_table import download_places
from ci_doctor.model.facts.correctness import SharedRead, SharedUse
from ci_doctor.render.formatting import amount
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.system.files.access import is_own_name
from ci_doctor.system.processes.process_table import read_table

# Each lease takes a descriptor; this share of them, and never more.
_SHARE_OF_DESCRIPTORS = 0.4
_MOST_LEASES = 4000
# The pattern of files that says that both arms may share all: then no file is looked at.
EVERYTHING = "*"
# Of the files that a start wrote, so many are kept.
_KEPT = 200
# Entries that a look at all places reads; the shallow ones come first.
_MOST_ENTRIES = 60_000
# The kernel's clock of files lags by a tick (10 ms at 100 Hz).
_LAG_NS = 20_000_000
# How often a thread is looked for that the kernel just puts to sleep.
_LOOKS = 40
_PAUSE_S = 0.002
# In the first of these looks, processes of others as well.
_LOOKS_AT_OTHERS = 4
# A file that others have open is tried again, first so soon, and ever more seldom.
_AGAIN_S, _SELDOM_S = 0.1, 5.0
# Of a file that is gone, or that this user may not read.
_UNREADABLE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES})
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/proc", "/sys", "/dev", "/")
_BELOW_SYSTEM = tuple(f"{each}/" for each in _SYSTEM[:-1])
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - read, not written
# Tables of what outlives the processes that use it: sysvipc(7), proc_sysvipc(5).
_SYSTEM_V = {"shm": ("segment", "shmid"), "msg": ("queue", "msqid")}
_SKIPPED = frozenset({".git", "site-packages", "dist-packages", "node_modules"})
# Compiled from a source of the same time, locks, and weights that a first start downloads.
_SHARED_ENDINGS = (".pyc", ".lock", ".safetensors", ".gguf", ".incomplete", ".part")
# A digest as text: of a commit, or SHA-256.
_LONGEST_DIGEST = 64
_DIGEST = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
# Variables by which libraries find what they keep.
_NAMES = ("CACHE", "TMP", "TEMP", "SPOOL", "DISK", "STORE", "STATE", "RUNTIME")
# open(2), openat(2) and creat(2) by number, with the place of their flags: x86-64, then arm64.
_OPEN_FLAGS = {"2": 2, "257": 3, "56": 3}
# PATH_MAX, and the descriptor that stands for the working directory (openat(2)).
_LONGEST_PATH = 4096
_AT_FDCWD = -100
# Names that lead each process elsewhere.
_OF_EACH_PROCESS = (b"/proc/self", b"/proc/thread-self", b"/dev/fd/", b"/dev/std")


class SharedPlaces:
    """The places that starts of both arms reach.

    `directory` is that of the services, `reports` that of the run. What matches a pattern of
    `allowed` (fnmatch) may be shared.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        specs: Sequence[ServiceSpec],
        directory: Path,
        reports: Path,
        allowed: Sequence[str] = (),
    ) -> None:
        self._roots = tuple(_roots(environment, specs, directory))
        self._named = _named_by_commands(environment, specs, directory)
        # Whoever reads our own report and progress reads no answers.
        self._streams = frozenset(os.path.realpath(f"/proc/self/fd/{each}") for each in (1, 2))
        self._downloads = tuple(map(os.path.realpath, download_places(environment)))
        self._allowed = allowed
        self._kept = frozenset((os.path.realpath(reports), *self._downloads))
        self._memory = dict(_memory())
        # Who wrote a file: starts by the letter of their arm.
        self._writers: dict[str, dict[str, str]] = {}
        # Changed while starts of both arms were launched at once: one of them may have written it.
        self._unsure: dict[str, dict[str, str]] = {}
        # Why a changed file may have been missed, in words.
        self.unseen = ""

    def written_by_others(self, arm: str) -> dict[str, str]:
        """The files that starts of another arm wrote, each with one of these starts."""
        others = {
            path: [start for letter, start in writers.items() if letter != arm]
            for path, writers in self._writers.items()
        }
        return {path: starts[0] for path, starts in others.items() if starts}

    def watched_by(self, arm: str) -> dict[str, str]:
        """The same, and the files of which it is not known which arm wrote them."""
        return {**dict.fromkeys(self._unsure, ""), **self.written_by_others(arm)}

    def note_written(
        self, arm: str, start: str, since_ns: int, answering_ns: int | None = None
    ) -> list[str]:
        """The files that have changed since then, and are the start's from now on.

        `answering_ns`: when it was about to get its first request, if it came to that.
        """
        return self.note_launched([(arm, start)], since_ns, answering_ns)

    def note_launched(
        self,
        starts: Sequence[tuple[str, str]],
        since_ns: int,
        answering_ns: int | None = None,
    ) -> list[str]:
        """The files that have changed since then, while these starts ran at once (arm and name).

        What a server writes into a download directory while it answers may be an answer. So it
        counts from then on, unless its name or its content shows that it was downloaded.
        """
        changed = set(self._changed(self._roots, since_ns - _LAG_NS))
        if answering_ns is not None:
            late = self._changed(self._downloads, answering_ns - _LAG_NS)
            changed.update(path for path in late if not _is_named_by_content(path))
        written = [*sorted(changed - self._streams), *self._used_memory()]
        written = [path for path in written if not self._is_allowed(path)]
        if len({arm for arm, _ in starts}) > 1:
            for path in written:
                self._unsure.setdefault(path, {})
        else:
            for arm, start in starts:
                self.note(arm, start, written)
        return written

    def reads(self, arm: str, start: str, opened: Mapping[str, str]) -> list[SharedRead]:
        """What a start read of the other arm's, of the files that it opened.

        A file of an unknown writer is shared once both arms have opened it.
        """
        reads = []
        for path, writer in sorted(opened.items()):
            openers = self._unsure.setdefault(path, {}) if not writer else {}
            others = [each for letter, each in openers.items() if letter != arm]
            openers.setdefault(arm, start)
            if writer or others:
                reads.append(SharedRead(path=path, writer=writer or others[0]))
        return reads

    def used_of_others(self, arm: str, written: Iterable[str]) -> dict[str, str]:
        """The memory among what a start changed that others used: to change it is to reach it."""
        watched = self.watched_by(arm)
        return {each: watched[each] for each in written if each in self._memory and each in watched}

    def _used_memory(self) -> list[str]:
        """What of System V has been made or used since the last call, by processes that have ended."""
        before, self._memory = self._memory, dict(_memory())
        running = {str(each.pid) for each in read_table() if not each.ended}
        # What a program uses that runs on is that program's.
        return [
            name
            for name, row in self._memory.items()
            if row != before.get(name)
            and running.isdisjoint(value for key, value in row.items() if key.endswith("pid"))
        ]

    def own(self, written: Iterable[str], held: Iterable[str]) -> tuple[str, ...]:
        """Those of the files that are of no other program: `held` by the start, or where its commands say."""
        known = {*self._named, *held}
        return tuple(
            path for path in written if path in known or any(map(known.__contains__, _above(path)))
        )

    def note(self, arm: str, start: str, written: Iterable[str]) -> None:
        """These files are the start's."""
        for path in written:
            self._writers.setdefault(path, {})[arm] = start

    def _is_allowed(self, path: str) -> bool:
        return any(fnmatchcase(path, os.path.expanduser(each)) for each in self._allowed)  # noqa: PTH111

    def _changed(self, roots: Sequence[str], since_ns: int) -> Iterator[str]:
        waiting = deque(roots)
        # A tree of downloads is looked at from its own root alone.
        known = self._kept.difference(roots)
        entries = 0
        while waiting and entries < _MOST_ENTRIES:
            top = waiting.popleft()
            if top in known:
                continue
            known |= {top}
            with contextlib.suppress(OSError), os.scandir(top) as listing:
                for entry in listing:
                    entries += 1
                    with contextlib.suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            if entry.name not in _SKIPPED and not is_own_name(entry.name):
                                waiting.append(entry.path)
                        elif _is_evidence(entry) and entry.stat().st_ctime_ns >= since_ns:
                            yield entry.path
        if waiting:
            self.unseen = f"only the shallow ones of more than {_MOST_ENTRIES} files"


def _memory() -> Iterator[tuple[str, dict[str, str]]]:
    """What of this user's is in the tables of System V, by a name that holds its number and its key."""
    for table, (kind, number) in _SYSTEM_V.items():
        with contextlib.suppress(OSError):
            header, *lines = Path(f"/proc/sysvipc/{table}").read_text().splitlines()
            for line in lines:
                row = dict(zip(header.split(), line.split(), strict=False))
                # What is resident changes by itself.
                row = {key: value for key, value in row.items() if key not in {"rss", "swap"}}
                if row.get("uid") == str(os.getuid()):
                    key = f"0x{int(row['key']) & 0xFFFFFFFF:08x}"
                    yield f"System V {kind} {row[number]} of key {key}", row


def _is_evidence(entry: "os.DirEntry[str]") -> bool:
    """Whether the file may hold what a start has computed: a file of this user's, and not empty."""
    if entry.name.endswith(_SHARED_ENDINGS):
        return False
    status = entry.stat(follow_symlinks=False)
    # The time of the change, which nobody can set, and which reading does not move.
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def _is_named_by_content(path: str) -> bool:
    """Whether a file's name holds a digest of its content, or its content is a digest.

    So Hugging Face keeps what it downloads (blobs by SHA-256 or as git does, refs/main), and torch
    its weights. An answer has no such name: who asks for it does not know it yet.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - opened once for all
            begin = file.read(_LONGEST_DIGEST + 2)
            if _DIGEST.fullmatch(begin.strip()):
                return True
            named = re.findall(r"[0-9a-f]{8,64}", Path(path).name)
            if not named:
                return False
            size = os.fstat(file.fileno()).st_size
            file.seek(0)
            digests = [hashlib.file_digest(file, "sha256").hexdigest()]
            blob = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
            file.seek(0)
            while chunk := file.read(1 << 20):
                blob.update(chunk)
            digests.append(blob.hexdigest())
    except OSError:
        return False
    return any(digest.startswith(name) for name in named for digest in digests)


def _roots(
    environment: Mapping[str, str], specs: Sequence[ServiceSpec], directory: Path
) -> Iterator[str]:
    """Directories in which a service may keep something, the most likely first."""
    named = [each for each in environment if any(word in each for word in _NAMES)]
    texts = [environment[each] for each in sorted(named)]
    common = _common_places(environment)
    home = common.pop()
    places = [*common, str(directory)]
    places += [place for text in texts for place in _named_places(text, directory)]
    places += [*_places_of_commands(specs, directory), home]
    for place in dict.fromkeys(map(os.path.realpath, filter(None, places))):
        if place not in _SYSTEM and not place.startswith(_BELOW_SYSTEM):
            yield place
    yield _SHARED_MEMORY


def _common_places(environment: Mapping[str, str]) -> list[str]:
    """Directories in which every program keeps something; the last is the user's own."""
    home = environment.get("HOME", "")
    return ["/tmp", "/var/tmp", f"{home}/.cache", home]  # noqa: S108 - read, not written


def _places_of_commands(specs: Sequence[ServiceSpec], directory: Path) -> Iterator[str]:
    for spec in specs:
        for text in (*spec.words(), *spec.env.values(), spec.cwd or ""):
            yield from _named_places(text, directory)


def _named_by_commands(
    environment: Mapping[str, str], specs: Sequence[ServiceSpec], directory: Path
) -> frozenset[str]:
    """The directories that are the services' own: theirs, and those that their commands name."""
    places = map(os.path.realpath, (str(directory), *_places_of_commands(specs, directory)))
    common = map(os.path.realpath, (*_common_places(environment), _SHARED_MEMORY, "/"))
    return frozenset(places).difference(common)


def _above(path: str) -> Iterator[str]:
    while (end := path.rfind("/")) > 0:
        path = path[:end]
        yield path


def _named_places(text: str, directory: Path) -> Iterator[str]:
    """The directories that a word of a command or a variable names, or whose files it names."""
    for word in text.replace("=", " ").replace(",", " ").split():
        path = os.path.join(directory, word)  # noqa: PTH118 - may be no path at all
        if os.path.isfile(path):  # noqa: PTH113
            yield os.path.dirname(path)  # noqa: PTH120
        elif word.startswith("/"):
            # What is not there yet is made in its folder.
            yield path if os.path.isdir(path) else os.path.dirname(path)  # noqa: PTH112, PTH120


class SharedWatch:
    """Holds leases on files while starts run.

    `marks` are the starts that run at once, by name: a text in the environment of its processes.
    `read` are the files that each has opened for reading, with what `watch` was told of the file.
    `elsewhere` are those that other programs had open, so that they were not always watched.
    """

    def __init__(self, marks: Mapping[str, str]) -> None:
        self._marks = marks
        # Of each file: the starts that must not read it, and what was told of it.
        self._files: dict[str, dict[str, str]] = {}
        self._leases: dict[int, str] = {}
        self._looking: asyncio.Task[None] | None = None
        self._is_begun = False
        # Files that others have open or hold leases on, and when they are tried again.
        self._taken: list[str] = []
        self._again: asyncio.TimerHandle | None = None
        self._again_s = _AGAIN_S
        self.read: dict[str, dict[str, str]] = {start: {} for start in marks}
        self.elsewhere: set[str] = set()
        self.unseen = ""

    def watch(self, start: str, files: Mapping[str, str]) -> None:
        """Lease files for a start, beside those so far.

        Call it in a running event loop, in the main thread.
        """
        leased = set(self._leases.values())
        for path, told in files.items():
            self._files.setdefault(path, {})[start] = told
        paths = [path for path in files if path not in leased]
        most = _most_leases()
        if len(leased) + len(paths) > most:
            self.unseen = f"{len(leased) + len(paths)} files are too many to watch"
            # Deep ones lie in folders of other programs.
            paths = sorted(paths, key=lambda path: path.count("/"))[: most - len(leased)]
        if not paths:
            return
        try:
            asyncio.get_running_loop().add_signal_handler(signal.SIGIO, self._opened)
            self._is_begun = True
        except (ValueError, RuntimeError) as error:
            self.unseen = str(error)
            return
        self._again_s = _AGAIN_S
        self._lease_all(paths)
        if len(self._marks) > 1:
            self._note_held(start, set(paths).difference(self._leases.values()))

    def _note_held(self, start: str, paths: set[str]) -> None:
        """Note those of the files that the start has open already."""
        parents = {each.pid: each.parent for each in read_table()}
        for pid in parents if paths else ():
            # Not the guardian, which has no mark, and our own streams.
            if self._owners(pid, parents) == {start}:
                for path in paths & _held(pid):
                    self.read[start][path] = self._files[path][start]

    def _lease_all(self, paths: Iterable[str]) -> None:
        """Lease these files, and those that could not be leased before."""
        waiting = dict.fromkeys((*self._taken, *paths))
        self._taken.clear()
        elsewhere = _leased_elsewhere()
        for path in waiting:
            self._lease(path, elsewhere)

    def _lease(self, path: str, elsewhere: Collection[int]) -> None:
        try:
            if os.lstat(path).st_ino in elsewhere:
                self._leave(path)
                return
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.EWOULDBLOCK:
                self._leave(path)
            elif error.errno not in _UNREADABLE:
                self.unseen = f"{path} cannot be watched: {error.strerror}"
            return
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            os.close(descriptor)
            if error.errno == errno.EAGAIN:
                self._leave(path)
            else:
                self.unseen = f"{path} cannot be watched: {error.strerror}"
            return
        self._leases[descriptor] = path

    def _leave(self, path: str) -> None:
        """Leave a file to others who have it open, and try again later."""
        self.elsewhere.add(path)
        self._taken.append(path)
        if self._again is None:
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(self._again_s, self._try_again)
            self._again_s = min(2 * self._again_s, _SELDOM_S)

    def _try_again(self) -> None:
        self._again = None
        self._lease_all(())
        for start in self._marks:
            self._note_held(start, {each for each in self._taken if start in self._files[each]})

    def _opened(self) -> None:
        """Somebody opens one of the files, and waits."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        """Let all go on who wait, and note which files the start's own processes opened."""
        while broken := self._broken():
            waiting = await self._own_waiting(broken)
            # Those that were opened meanwhile as well: a thread of the start waits for one of them.
            broken = self._broken() if waiting else broken
            for descriptor in broken:
                file = _identity(os.fstat(descriptor))
                path = self._release(descriptor)
                if not waiting:
                    self._leave(path)
                    continue
                left = waiting
                if len(broken) > 1:
                    await asyncio.sleep(_PAUSE_S)
                    left = self._waiting()
                # Of a thread whose file is not known: it went on when this one was released.
                opened = [
                    each
                    for place, each in waiting.items()
                    if each.file == file
                    or (each.file is None and (len(broken) == 1 or place not in left))
                ]
                if not opened:
                    self._leave(path)
                for start, told in self._files[path].items():
                    if any(start in each.starts and _reads(each.flags) for each in opened):
                        self.read[start][path] = told
                waiting = left

    def _broken(self) -> list[int]:
        leased = fcntl.F_WRLCK
        return [each for each in self._leases if fcntl.fcntl(each, fcntl.F_GETLEASE) != leased]

    def _release(self, descriptor: int) -> str:
        """Closing ends the lease, and whoever waits goes on."""
        path = self._leases.pop(descriptor)
        os.close(descriptor)
        return path

    async def _own_waiting(self, broken: Collection[int]) -> "dict[Path, _Waiting]":
        """Threads of the starts that wait, once one may wait for a file of these descriptors.

        Others can hold leases too: those of another ci-doctor on this machine, for one.
        No thread once processes of others wait for all of these files: it is they who opened them.
        """
        files = {_identity(os.fstat(each)) for each in broken}
        for look in range(_LOOKS):
            waiting = self._waiting(of_others=look < _LOOKS_AT_OTHERS)
            own = {place: each for place, each in waiting.items() if each.starts}
            if any(each.file is None or each.file in files for each in own.values()):
                return own
            if files <= {each.file for each in waiting.values()}:
                return {}
            await asyncio.sleep(_PAUSE_S)
        return {}

    def _waiting(self, *, of_others: bool = False) -> "dict[Path, _Waiting]":
        """Threads of the starts that wait for a leased file; on demand those of others, without a start."""
        waiting = {}
        parents = {each.pid: each.parent for each in read_table()}
        for pid in parents:
            starts = self._owners(pid, parents)
            if not starts and not of_others:
                continue
            with contextlib.suppress(OSError):
                for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                    place = Path(f"/proc/{pid}/task/{thread}")
                    if "break_lease" in (place / "wchan").read_text():
                        waiting[place] = _waiting_thread(place, starts)
        # A file without a lease was not what it waits for: a name can lead elsewhere in a container.
        leased = {os.fstat(each).st_ino for each in self._leases}
        leased |= _leased_elsewhere() if waiting else set()
        return {
            place: each if each.file and each.file[1] in leased else each._replace(file=None)
            for place, each in waiting.items()
        }

    def _owners(self, pid: int, parents: Mapping[int, int]) -> frozenset[str]:
        """The starts that a process may belong to: none for one of others.

        Of several, the one whose mark it has, or has a process above it.
        """
        me = os.getpid()
        family: list[int] = []
        above: int | None = pid
        while above and above != me:
            family.append(above)
            above = parents.get(above)
        if above == me and len(self._marks) == 1:
            return frozenset(self._marks)
        # Its parent may have ended, so it counts by its own mark as well.
        for member in family if above == me else [pid]:
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{member}/environ").read_text(errors="replace")
                marked = frozenset(
                    start for start, own in self._marks.items() if own in environment
                )
                if marked:
                    return marked
        return frozenset(self._marks) if above == me else frozenset()

    def use(
        self,
        written: Sequence[str],
        own: Sequence[str],
        read: Sequence[SharedRead],
        unseen: str = "",
    ) -> SharedUse:
        """What a start did; `written` are the files that changed while it ran, of those that are not `unseen`."""
        left = len(self.elsewhere)
        open_elsewhere = f"{amount(left, 'file')} that other programs had open" if left else ""
        return SharedUse(
            written=tuple(written[:_KEPT]),
            own=tuple(own[:_KEPT]),
            count=len(written),
            read=tuple(read),
            unseen=tuple(filter(None, (self.unseen, open_elsewhere, unseen))),
        )

    async def settle(self) -> None:
        """Wait until it is known who has opened what so far."""
        if self._leases:
            self._opened()
        if self._looking is not None:
            await asyncio.gather(self._looking, return_exceptions=True)

    def give_back(self) -> None:
        """Close what is leased. A signal may still come: alone it would end this process."""
        if self._looking is not None:
            self._looking.cancel()
        if self._again is not None:
            self._again.cancel()
        for descriptor in self._leases:
            os.close(descriptor)
        self._leases.clear()
        if self._is_begun:
            with contextlib.suppress(ValueError, RuntimeError):
                asyncio.get_running_loop().remove_signal_handler(signal.SIGIO)
                signal.signal(signal.SIGIO, lambda *_: None)


class _Waiting(NamedTuple):
    """A thread that waits for a leased file: its starts, and the flags and file of its open if they are known."""

    starts: frozenset[str]
    flags: int | None
    file: tuple[int, int] | None


# A list of locks that changes while it is read may leave one out (seq_file).
_READINGS = 3


def _most_leases() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_LEASES
    return min(int(soft * _SHARE_OF_DESCRIPTORS), _MOST_LEASES)


def _leased_elsewhere() -> set[int]:
    """The inodes of files on which other programs hold leases: to open one takes the lease away."""
    inodes = set()
    for _ in range(_READINGS):
        with contextlib.suppress(OSError):
            inodes |= _leased_now()
    return inodes


def _leased_now() -> set[int]:
    inodes = set()
    for line in Path("/proc/locks").read_text().splitlines():
        # `1: LEASE  ACTIVE    WRITE 4242 fe:00:2146622 0 EOF` (proc_locks(5))
        _, kind, _, _, pid, place, *_ = line.split()
        if kind == "LEASE" and pid != str(os.getpid()):
            inodes.add(int(place.rsplit(":", 1)[-1]))
    return inodes


def _held(pid: int) -> set[str]:
    """The files that a process has open for reading, or has mapped; none if it has ended."""
    held = set()
    with contextlib.suppress(OSError):
        # What is mapped may have no descriptor any more.
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            held.add(line.split(maxsplit=5)[-1])
        for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            with contextlib.suppress(OSError, ValueError, IndexError):
                # `flags:	0100002`, in octal (proc_pid_fdinfo(5)).
                fields = Path(f"/proc/{pid}/fdinfo/{entry}").read_text().split()
                if _reads(int(fields[fields.index("flags:") + 1], 8)):
                    held.add(os.readlink(f"/proc/{pid}/fd/{entry}"))  # noqa: PTH115
    return held


def _waiting_thread(thread: Path, starts: frozenset[str]) -> _Waiting:
    """What a thread of these starts waits for, as far as the kernel shows it (proc_pid_syscall(5))."""
    flags: int | None = None
    try:
        words = (thread / "syscall").read_text().split()
        place = _OPEN_FLAGS[words[0]]
        flags = int(words[place], 16)
        with (thread / "mem").open("rb", buffering=0) as memory:
            memory.seek(int(words[place - 1], 16))
            name = memory.read(_LONGEST_PATH).split(b"\0")[0]
        file = _identity(os.stat(_seen_from_here(thread, name, words[1], of_folder=place == 3)))  # noqa: PTH116
    except (OSError, LookupError, ValueError):
        return _Waiting(starts, flags, None)
    return _Waiting(starts, flags, file)


def _seen_from_here(thread: Path, name: bytes, folder: str, *, of_folder: bool) -> bytes:
    """A path that a thread opens, as this process reaches it; `folder` is the descriptor of openat(2).

    Raises LookupError for a name that leads this process elsewhere.
    """
    if name.startswith(_OF_EACH_PROCESS):
        raise LookupError(name)
    if name.startswith(b"/"):
        return os.fsencode(thread / "root") + name
    number = ctypes.c_int(int(folder, 16)).value if of_folder else _AT_FDCWD
    base = thread / "cwd" if number == _AT_FDCWD else thread / "fd" / str(number)
    return os.fsencode(base) + b"/" + name


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _reads(flags: int | None) -> bool:
    """Whether a file is opened to be read, and not emptied first."""
    if flags is None:
        return True
    return flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_TRUNC


def now_ns() -> int:
    """The time as files have it."""
    return time.time_ns()
