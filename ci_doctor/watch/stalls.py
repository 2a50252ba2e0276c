# SPDX-License-Identifier: Apache-2.0
"""Reads /proc and the kernel's sockets: whether a script does anything, what its processes wait for, and at which statement."""

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.model.facts.diagnose import WatchedStall
from ci_doctor.model.words import shortened
from ci_doctor.services.liveness import describe_processes
from ci_doctor.syntax.shell_tree import syntax_tree
from ci_doctor.system import clock
from ci_doctor.system.files.access import own_directory
from ci_doctor.system.processes.listeners import moved_bytes
from ci_doctor.system.processes.process_table import look_up
from ci_doctor.system.processes.tree_stop import read_masks
from ci_doctor.watch.judging import Process
from ci_doctor.watch.report import command_line

_SCRIPT = "255"
_MOST_BYTES = 1 << 20
_SHOWN = 120


def place_of(process: Process) -> str | None:
    """`ci/serving.sh:12: until curl …`, or the text of `sh -c`; None if nobody can tell."""
    if not process.is_shell:
        return None
    if len(process.words) > 2 and re.fullmatch(r"-\w*c", process.words[1]):
        text = " ".join(process.words[2].split())
        return text if len(text) <= _SHOWN else None
    with contextlib.suppress(OSError, ValueError, IndexError, RecursionError):
        folder = f"/proc/{process.pid}"
        path = os.readlink(f"{folder}/fd/{_SCRIPT}")  # noqa: PTH115
        position = int(
            Path(f"{folder}/fdinfo/{_SCRIPT}").read_text().partition("pos:")[2].split()[0]
        )
        content = Path(path).read_bytes()
        if len(content) <= _MOST_BYTES:
            return _statement(path, content, position, process.directory)
    return None


def _statement(path: str, content: bytes, position: int, directory: str) -> str | None:
    """The last statement that begins before `position` (bytes)."""
    offset = len(content[:position].decode(errors="replace"))
    text = content.decode(errors="replace")
    before = [node for node in syntax_tree(text).program.children if node.start < offset]
    if not before:
        return None
    start = before[-1].start
    line = text.count("\n", 0, start) + 1
    words = text[start:].splitlines()[0].strip()
    name = path.removeprefix(f"{directory}/")
    return f"{name}:{line}: {shortened(words, _SHOWN)}"


# --- whether a script does anything, and what its processes wait for ---


# A loop of `curl` and `sleep 1` takes one or two percent of a core, and a heart beats over a socket.
_BUSY: Final = 0.03
_BYTES_A_SECOND: Final = 4096
_MOST: Final = 8
_MOST_PEERS: Final = 3
_MOST_STALLS: Final = 5
STACKS_VARIABLE: Final = "CI_DOCTOR_STACKS"
# SIGRTMIN+16 on Linux: neither programs nor libraries use it. preload/injected has it, too.
STACKS_SIGNAL: Final = 50
_STACKS_S: Final = 1.0
_MOST_STACK_LINES: Final = 30


class WatchSettings(Struct, frozen=True, kw_only=True):
    """How a script is watched.

    ends_on_death: a death that is worth a word ends the script and all of it. cleans: what is left at
    the end is ended. allowed: patterns of what may be left. stall_s: after which time without any
    doing there is evidence; deadline_s: from the start on, when there is in any case; None for never.
    stacks: the folder that Pythons write their stacks to. environment: where py-spy is looked for.
    """

    ends_on_death: bool = False
    cleans: bool = False
    allowed: tuple[str, ...] = ()
    stall_s: float = 300.0
    deadline_s: float | None = None
    stacks: Path | None = None
    environment: Mapping[str, str] = {}


class Doings(Struct, frozen=True, kw_only=True):
    """What a script has done until `at`: CPU and bytes on disk by pid, sizes of logs, bytes by connection."""

    at: float
    cpu_s: Mapping[int, float]
    disk: Mapping[int, int]
    logs: Mapping[str, tuple[int, int]]
    network: Mapping[object, int]


def doings(processes: Iterable[Process], log: Path) -> Doings:
    """What these have done so far; what cannot be read is left out."""
    processes = tuple(processes)
    logs = {}
    for path in {str(log), *(each.log for each in processes if each.log)}:
        with contextlib.suppress(OSError):
            status = os.stat(path)  # noqa: PTH116
            logs[path] = (status.st_size, status.st_mtime_ns)
    network: Mapping[object, int] = {}
    with contextlib.suppress(OSError):
        network = moved_bytes()
    return Doings(
        at=clock.now(),
        cpu_s=dict(_cpu(each.pid for each in processes)),
        disk=dict(_disk(each.pid for each in processes)),
        logs=logs,
        network=network,
    )


class StallWatch:
    """Compares what a script has done with what it had done before. `found` are its stalls."""

    def __init__(self, settings: WatchSettings, log: Path) -> None:
        self.found: list[WatchedStall] = []
        self._settings = settings
        self._log = log
        self._every_s = min(max(1.0, settings.stall_s / 10), 15.0)
        self._due_s = self._every_s
        self._before: Doings | None = None
        self._idle_since_s = 0.0
        self._is_told = False
        self._deadline_s = settings.deadline_s

    def look(self, living: Sequence[Process], age_s: float) -> WatchedStall | None:
        """A stall that is worth a word now; `age_s` is the age of the script."""
        if self._deadline_s is not None and age_s >= self._deadline_s:
            self._deadline_s = None
            return self._note("deadline", 0.0, age_s, living)
        if age_s < self._due_s:
            return None
        self._due_s = age_s + self._every_s
        before, self._before = self._before, doings(living, self._log)
        if before is None or not is_idle(before, self._before):
            self._idle_since_s = age_s
            self._is_told = False
            return None
        length_s = age_s - self._idle_since_s
        if self._is_told or length_s < self._settings.stall_s or len(self.found) >= _MOST_STALLS:
            return None
        self._is_told = True
        return self._note("stall", self._idle_since_s, length_s, living)

    def _note(
        self, why: str, start_s: float, seconds: float, living: Sequence[Process]
    ) -> WatchedStall:
        stall = WatchedStall(
            start_s=round(start_s, 1),
            seconds=round(seconds, 1),
            why=why,
            processes=evidence(living, self._settings.environment, self._settings.stacks),
        )
        self.found.append(stall)
        return stall


def _cpu(pids: Iterable[int]) -> Iterator[tuple[int, float]]:
    """The four times of proc_pid_stat(5): with the children that were waited for."""
    ticks = os.sysconf("SC_CLK_TCK")
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            yield pid, sum(map(int, fields[11:15])) / ticks


def _disk(pids: Iterable[int]) -> Iterator[tuple[int, int]]:
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
            yield pid, sum(int(line.split()[1]) for line in lines if "_bytes" in line.split(":")[0])


def is_idle(before: Doings, now: Doings) -> bool:
    """Whether nothing was done between the two that is worth a word. Pure."""
    length_s = max(now.at - before.at, 0.001)
    cpu_s = sum(max(0.0, each - before.cpu_s.get(pid, 0.0)) for pid, each in now.cpu_s.items())
    disk = sum(max(0, each - before.disk.get(pid, 0)) for pid, each in now.disk.items())
    # A connection that is new has moved little yet.
    network = sum(max(0, each - before.network.get(key, each)) for key, each in now.network.items())
    return (
        cpu_s < _BUSY * length_s
        and disk < _BYTES_A_SECOND * length_s
        and network < _BYTES_A_SECOND * length_s
        and before.logs == now.logs
    )


def evidence(
    processes: Sequence[Process], environment: Mapping[str, str], stacks: Path | None
) -> tuple[str, ...]:
    """Lines on what each process does: its state, where its threads wait, for whom, and its stacks."""
    lines: list[str] = []
    telling = [each for each in processes if not each.is_copy or not each.is_shell]
    locks = dict(_locks())
    for process in telling[:_MOST]:
        described = list(describe_processes([process.pid], environment))
        lines += [f"{line}; {command_line(process)}" for line in described[:1]]
        place = place_of(process)
        lines += [] if place is None else [f"  is at {place}"]
        lines += [f"  {line}" for line in _peers(process.pid, processes)]
        if process.pid in locks:
            lines.append(f"  waits for a lock that {locks[process.pid]} has")
        lines += described[1:]
        if len(described) == 1 and stacks is not None:
            lines += [f"  {line}" for line in _stacks(process.pid, stacks)]
    if len(telling) > _MOST:
        lines.append(f"and {len(telling) - _MOST} more")
    return tuple(lines)


def _peers(pid: int, processes: Sequence[Process]) -> Iterator[str]:
    """With whom its connections are."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        connections = psutil.Process(pid).net_connections("tcp")
        peers = [each.raddr for each in connections if len(each.raddr)]
        for host, port in peers[:_MOST_PEERS]:
            owner = next((each.name for each in processes if port in each.ports), None)
            yield f"is connected to {host}:{port}" + ("" if owner is None else f", {owner}")


def _locks() -> Iterator[tuple[int, str]]:
    """Of each process that waits for the lock of a file: who has it (proc_locks(5))."""
    owner = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] != "->":
                owner = int(fields[4])
                continue
            kin = look_up(owner)
            yield int(fields[5]), f"pid {owner}" if kin is None else f"{kin.name} (pid {owner})"


def _stacks(pid: int, folder: Path) -> Iterator[str]:
    """The stacks of a Python that has our handler; it may have closed the handler's file."""
    path = folder / str(pid)
    with contextlib.suppress(OSError):
        names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
        links = {os.path.realpath(f"/proc/{pid}/fd/{name}") for name in names}
        if os.path.realpath(path) not in links or not read_masks(pid).handles(STACKS_SIGNAL):
            return
        before = path.stat().st_size
        os.kill(pid, STACKS_SIGNAL)
        limit = clock.now() + _STACKS_S
        while path.stat().st_size == before and clock.now() < limit:
            time.sleep(0.02)
        text = path.read_text(errors="replace")[before:]
        yield from text.splitlines()[:_MOST_STACK_LINES]


@contextlib.contextmanager
def stacks_folder(
    environ: Mapping[str, str], *, wanted: bool
) -> Iterator[tuple[Path | None, Mapping[str, str]]]:
    """A folder while the context lasts, and `environ` in which each Python can write its stacks there."""
    if not wanted:
        yield None, environ
        return
    from ci_doctor.preload.injection import FOLDER, injected

    with own_directory() as folder:
        code = FOLDER / "_ci_doctor_stacks.py"
        yield Path(folder), injected(environ, (code,), **{STACKS_VARIABLE: folder})
