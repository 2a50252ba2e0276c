# SPDX-License-Identifier: Apache-2.0
"""Acts on ci-doctor's own temporary directories for `--fix`; reads /proc and files: what earlier jobs have left, whose it is, what it holds."""

import contextlib
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from ci_doctor.checks.check import (
    CheckResult,
    Findings,
    Fix,
    UndeterminedError,
    check,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.processes import JOB_ID, RunningProcess, job_of, read_processes
from ci_doctor.checks.settings import SERVING
from ci_doctor.errors import UsageError
from ci_doctor.machine.host import content_of
from ci_doctor.model.outcome import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount, duration, size
from ci_doctor.services.leak_ledger import in_use
from ci_doctor.system import clock
from ci_doctor.system.files.access import abandoned_directories, remove_abandoned
from ci_doctor.system.processes.listeners import listening_ports

# Reads /proc: servers and workers of earlier jobs that still run, whose they are, what they hold.

STALE_PROCESSES: Final = Rule(
    id="doctor/stale-processes",
    severity=Severity.WARNING,
    meaning="Servers or workers of an earlier job still run: nothing waits for them any more. They "
    "hold memory, ports, or a GPU.",
    remedy="End them, once you are sure that nobody uses them: `kill PID`, after some seconds "
    "`kill -9 PID`. ci-doctor ends no process that it did not start.",
)
OTHER_JOB: Final = Rule(
    id="doctor/other-job",
    severity=Severity.NOTE,
    meaning="Another job runs servers on this machine now. It competes for GPUs, memory and ports.",
    remedy="Give each job GPUs of its own (CUDA_VISIBLE_DEVICES), or the machine one job at a time.",
)
# A service of systemd and a container stand in groups of their own (systemd.unit(5), cgroups(7)).
# The service of an agent is where jobs leave things.
_MANAGED = re.compile(
    r"/(?!user@|buildkite)[^/\n]+\.service(?:/|$)|docker|kubepods|containerd|libpod|lxc",
    re.MULTILINE,
)
_SHOWN = 10
# Of what one process holds.
_THINGS_SHOWN = 6
# What adopts orphans and starts no server itself.
_INITS: Final = frozenset(
    {"systemd", "init", "tini", "docker-init", "dumb-init", "catatonit", "s6-svscan", "runsv"}
)
AGENT: Final = "buildkite-agent"
_FIRST_PID: Final = 1
# What setproctitle(3) leaves of a command line: vLLM, SGLang and Ray name their workers so.
_TITLES: Final = ("VLLM::", "sglang::", "ray::", "EngineCore")
_PROGRAMS: Final = frozenset(
    {
        "vllm",
        "sglang",
        "lmcache",
        "lmcache_server",
        "lmcache_controller",
        "raylet",
        "gcs_server",
        "torchrun",
        "trtllm-serve",
    }
)
_PACKAGES: Final = ("vllm", "sglang", "lmcache", "torch.distributed", "ray")
_GUARDIAN: Final = "ci_doctor.system.guardian"
# Options of Python with a value of their own (python(1)).
_WITH_VALUE: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})


class ProcessStanding(Enum):
    """Whose a process is."""

    OURS = "ours"
    OTHERS = "of another job that runs"
    STALE = "left"
    MANAGED = "of a service manager"
    UNKNOWN = "unknown"


class Surroundings(Struct, frozen=True, kw_only=True):
    """Who asks, and what runs around it.

    `pid` and `job` are ours (None: no Buildkite job). `running_jobs` are those that an agent on this
    machine runs; `sees_agents`: there is an agent, so that these are all. `jobs` has the job of
    each process (None: unknown, or of none). `is_managed` tells whether a service manager or a
    container runtime has started a process apart from us. `table` has all processes in view.
    """

    pid: int
    job: str | None
    running_jobs: frozenset[str]
    sees_agents: bool
    jobs: Mapping[int, str | None]
    is_managed: Callable[[int], bool]
    table: Mapping[int, RunningProcess]

    def ancestors(self, pid: int) -> Iterator[RunningProcess]:
        """The parent, its parent, and so on, as far as the table shows them."""
        met = {pid}
        process = self.table.get(pid)
        while process is not None and process.kin.parent not in met:
            # A pid that is used anew while the table is read must not lead in a circle.
            met.add(process.kin.parent)
            process = self.table.get(process.kin.parent)
            if process is not None:
                yield process


@check("leftovers/processes", title="servers of earlier jobs that still run", needed_for=SERVING)
def processes(context: CheckContext) -> Findings:
    table = context.shared(read_processes)
    jobs = {pid: job_of(context, pid) for pid in table}
    around = _surroundings(context, table, jobs)
    by_standing: dict[ProcessStanding, list[RunningProcess]] = {}
    for pid, process in sorted(table.items()):
        # Of another job every process counts, otherwise those that look like a server.
        is_another = around.job is not None and jobs[pid] not in {None, around.job}
        if process.words and (is_another or is_server(process.words)):
            by_standing.setdefault(standing_of(process, around), []).append(process)
    stale = by_standing.get(ProcessStanding.STALE, [])
    others = by_standing.get(ProcessStanding.OTHERS, [])
    unknown = by_standing.get(ProcessStanding.UNKNOWN, [])
    if stale:
        words = ["kill", *(str(process.pid) for process in stale)]
        if any(process.uid != os.geteuid() for process in stale):
            words.insert(0, "sudo")
        first = stale[0].describe()
        head = "left by an earlier job: "
        if len(stale) > 1:
            head = f"{len(stale)} processes are left by earlier jobs, the first is "
        yield problem(
            STALE_PROCESSES,
            head + first,
            evidence=_evidence(context, stale, jobs),
            remedy=ShellCommand(" ".join(words)),
        )
    if others:
        yield problem(
            OTHER_JOB,
            f"another job runs here: {others[0].describe()}",
            evidence=_evidence(context, others, jobs),
        )
    return CheckResult(
        summary=f"{len(stale)} of earlier jobs among {len(table)} processes",
        unknown=_unknown(unknown) if unknown else None,
        evidence=_evidence(context, unknown, jobs) if unknown else (),
        figures={"stale": len(stale), "unknown": len(unknown)},
    )


def _unknown(processes: Sequence[RunningProcess]) -> str:
    first = processes[0].describe()
    if len(processes) == 1:
        return f"whether a running job owns {first}"
    return f"whether running jobs own {len(processes)} servers, the first is {first}"


def _surroundings(
    context: CheckContext, table: Mapping[int, RunningProcess], jobs: Mapping[int, str | None]
) -> Surroundings:
    agents = [pid for pid, process in table.items() if process.kin.name == AGENT]

    def group_of(pid: int) -> str:
        """Its control groups as /proc shows them; empty if it does not."""
        return content_of(context.proc / str(pid) / "cgroup")

    own_group = group_of(os.getpid())

    def is_managed(pid: int) -> bool:
        group = group_of(pid)
        return group != own_group and _MANAGED.search(group) is not None

    return Surroundings(
        pid=os.getpid(),
        job=context.environ.get(JOB_ID) or None,
        running_jobs=frozenset(job for pid in agents if (job := jobs[pid]) is not None),
        sees_agents=bool(agents),
        jobs=jobs,
        is_managed=is_managed,
        table=table,
    )


def _evidence(
    context: CheckContext, processes: Sequence[RunningProcess], jobs: Mapping[int, str | None]
) -> tuple[Evidence, ...]:
    lines = []
    for process in processes[:_SHOWN]:
        line = process.describe()
        job = jobs[process.pid]
        if job is not None:
            line += f", job {job}"
        things = held_things(context, process.pid)
        if things:
            line += f", holds {', '.join(things)}"
        lines.append(line)
    if len(processes) > _SHOWN:
        lines.append(f"and {len(processes) - _SHOWN} more")
    return (Evidence(excerpt="\n".join(lines)),)


def read_listening_ports(_context: CheckContext) -> Mapping[int, int]:
    """The listening ports by the inode of the socket; none if /proc does not tell.

    For CheckContext.shared.
    """
    try:
        return listening_ports()
    except OSError:
        return {}


def held_things(context: CheckContext, pid: int) -> tuple[str, ...]:
    """`port 8000`, `/dev/shm/x`, `/dev/nvidia0`; empty if we may not look into the process."""
    ports = context.shared(read_listening_ports)
    things = set()
    folder = f"{context.proc}/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - thousands of Path objects
            with contextlib.suppress(OSError, ValueError):
                link = os.readlink(f"{folder}/{name}")  # noqa: PTH115
                if link.startswith("socket:["):
                    port = ports.get(int(link[8:-1]))
                    things.add(None if port is None else f"port {port}")
                elif link.startswith(("/dev/shm/", "/dev/nvidia")):
                    things.add(link.removesuffix(" (deleted)"))
    return tuple(sorted(thing for thing in things if thing is not None)[:_THINGS_SHOWN])


def standing_of(process: RunningProcess, around: Surroundings) -> ProcessStanding:
    """Whose `process` is."""
    job = around.jobs.get(process.pid)
    if job is not None and job == around.job:
        return ProcessStanding.OURS
    if job is None and _is_of_our_kin(process, around):
        return ProcessStanding.OURS
    above = list(around.ancestors(process.pid))
    if job in around.running_jobs or any(each.kin.name == AGENT for each in above):
        return ProcessStanding.OTHERS
    if around.is_managed(process.pid):
        return ProcessStanding.MANAGED
    # No agent runs its job any more, whoever its parent is by now.
    has_ended = job is not None and around.job is not None and around.sees_agents
    if has_ended or _is_orphan(process, around.table) or _is_adopted(process, job, around):
        return ProcessStanding.STALE
    return ProcessStanding.UNKNOWN


def _is_of_our_kin(process: RunningProcess, around: Surroundings) -> bool:
    """Whether it shares our session, or descends from a process above us.

    The first process, inits and agents do not count: an agent may run several jobs at once.
    """
    own = around.table.get(around.pid)
    if own is None:
        return False
    above = {
        each.pid
        for each in (own, *around.ancestors(around.pid))
        if each.pid != _FIRST_PID and each.kin.name not in {*_INITS, AGENT}
    }
    line = {process.pid, *(each.pid for each in around.ancestors(process.pid))}
    return process.session == own.session or not above.isdisjoint(line)


def _is_orphan(process: RunningProcess, table: Mapping[int, RunningProcess]) -> bool:
    """Whether an init has adopted it; one of a user adopts as the first process does.

    The first process of a container may be no init and start servers by itself. Below it, a process
    is an orphan if the leader of its group is gone: the shell that started both.
    """
    parent = table.get(process.kin.parent)
    if parent is None:
        return process.pid != _FIRST_PID
    if parent.kin.name in _INITS:
        return True
    if parent.pid != _FIRST_PID:
        return False
    return process.group not in table or process.session not in table


def _is_adopted(process: RunningProcess, job: str | None, around: Surroundings) -> bool:
    """Whether the first process has it as a child, and cannot have started it; or one above it.

    The environment of a child begins as that of its parent. One of another job has come to the first
    process because its own parent has ended, whatever program that first process is.
    """
    if job is None or job == around.jobs.get(_FIRST_PID):
        return False
    line = (process, *around.ancestors(process.pid))
    return any(around.jobs.get(each.pid) == job and each.kin.parent == _FIRST_PID for each in line)


def is_server(words: Sequence[str]) -> bool:
    """Whether a command line is one of those that a killed job tends to leave."""
    if not words:
        return False
    if words[0].startswith(_TITLES):
        return True
    program = words[0].rpartition("/")[2]
    return _is_server_in_python(words[1:]) if program.startswith("python") else program in _PROGRAMS


def _is_server_in_python(words: Sequence[str]) -> bool:
    arguments = iter(words)
    for word in arguments:
        if word == "-m":
            module = next(arguments, "")
            return any(module == name or module.startswith(f"{name}.") for name in _PACKAGES)
        if word == "-c":
            return _GUARDIAN in next(arguments, "")
        if word in _WITH_VALUE:
            next(arguments, None)
        elif not word.startswith("-"):
            return word.rpartition("/")[2] in _PROGRAMS
    return False


# Acts on ci-doctor's own temporary directories for `--fix`; reads other files of earlier jobs.

_FILES_SHOWN = 10

STALE_SHARED_MEMORY: Final = Rule(
    id="doctor/stale-shared-memory",
    severity=Severity.NOTE,
    meaning="Files in /dev/shm are open in no process, so a killed one has left them. They hold "
    "memory until somebody removes them.",
    remedy="Remove those that are named. A container that shares /dev/shm with others does not see "
    "their processes: look there first.",
)
# One that is just being made may not be open yet.
_LEAST_AGE_S = 600.0
# Of the room in /dev/shm: then the next server may not find enough.
_MUCH = 0.1
# include/linux/proc_ns.h: the inodes of the first namespaces, those of the host.
_HOST_IPC, _HOST_PID = 0xEFFFFFFF, 0xEFFFFFFC


class OldFile(NamedTuple):
    """A file: bytes that it holds, and seconds since its last change."""

    size: int
    age_s: float
    path: str


@check("leftovers/shared-memory", title="files in /dev/shm that no process has open")
def shared_memory(context: CheckContext) -> Findings:
    # Resolved, as /proc shows the paths of open files: it may be a link to /run/shm.
    folder = (context.dev / "shm").resolve()
    if not folder.is_dir():
        return f"there is no {folder}"
    files = [each for each in _files_of_this_user(folder.iterdir()) if each.age_s >= _LEAST_AGE_S]
    if not files:
        return f"no old file of this user in {folder}"
    if _hides_processes(context):
        raise UndeterminedError(
            f"{folder} is shared with the host, whose processes this container does not see"
        )
    used = in_use([file.path for file in files])
    left = [file for file in files if file.path not in used]
    left.sort(key=lambda file: -file.size)
    if not left:
        return f"every file in {folder} is open in a process"
    total = sum(file.size for file in left)
    usage = os.statvfs(folder)
    lines = [
        f"{file.path}, {size(file.size)}, {duration(file.age_s)} old"
        for file in left[:_FILES_SHOWN]
    ]
    if len(left) > _FILES_SHOWN:
        lines.append(f"and {len(left) - _FILES_SHOWN} more")
    is_much = total > _MUCH * usage.f_blocks * usage.f_frsize
    summary = f"{amount(len(left), 'file')} in {folder} that no process has open, {size(total)}"
    yield problem(
        STALE_SHARED_MEMORY,
        summary,
        evidence=(Evidence(excerpt="\n".join(lines)),),
        # The largest ones, which are named; the next run names further ones.
        remedy=ShellCommand(shlex.join(["rm", *(file.path for file in left[:_FILES_SHOWN])])),
        severity=Severity.WARNING if is_much else Severity.NOTE,
    )
    return CheckResult(summary=summary, figures={"files": len(left), "bytes": total})


def _files_of_this_user(paths: Iterable[Path]) -> Iterable[OldFile]:
    """Regular files of this user; root sees every process, so it may judge those of all."""
    now, own = clock.epoch(), os.geteuid()
    for path in sorted(paths):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            age_s = now - max(status.st_mtime, status.st_ctime)
            if stat.S_ISREG(status.st_mode) and own in {0, status.st_uid}:
                yield OldFile(status.st_blocks * 512, age_s, str(path))  # stat(2)


def _hides_processes(context: CheckContext) -> bool:
    """Whether /dev/shm may be the host's (`--ipc=host`), and /proc shows our container alone."""
    space = context.proc / "self" / "ns"
    try:
        is_shared = (space / "ipc").stat().st_ino == _HOST_IPC
        return is_shared and (space / "pid").stat().st_ino != _HOST_PID
    except OSError:
        return False


OWN_DIRECTORIES: Final = Rule(
    id="doctor/own-directories",
    severity=Severity.NOTE,
    meaning="A run of ci-doctor was killed and has left its temporary directory. A running ci-doctor "
    "holds a lock on its directory, so this one is of no use to anybody.",
    remedy="ci-doctor doctor --fix",
)
# A run that is beginning has made its directory, and has not locked it yet.
_LEAST_AGE_OF_A_RUN_S = 3600.0
# Files that are counted; the rest is of no use to a reader.
_COUNTED = 2000


@check(
    "leftovers/temporary-directories",
    title="temporary directories of killed runs of ci-doctor",
)
def temporary_directories(context: CheckContext) -> Findings:
    # As /proc shows the paths of open files.
    folder = Path(context.environ.get("TMPDIR") or tempfile.gettempdir()).resolve()
    try:
        left = abandoned_directories(folder, clock.epoch(), _LEAST_AGE_OF_A_RUN_S)
    except (FileNotFoundError, NotADirectoryError):
        return f"there is no directory {folder}"
    # What a killed run has started may work in its directory still.
    used = in_use([str(path) for path in left])
    left = [path for path in left if str(path) not in used]
    if not left:
        return f"nothing of an earlier ci-doctor in {folder}"
    each = [f"{path}, {_size(path)}" for path in left]
    summary = f"killed runs of ci-doctor have left {amount(len(left), 'folder')} in {folder}"
    shown = each[:_FILES_SHOWN]
    if len(each) > _FILES_SHOWN:
        shown.append(f"and {len(each) - _FILES_SHOWN} more")
    yield problem(
        OWN_DIRECTORIES,
        f"a killed ci-doctor has left {each[0]}" if len(each) == 1 else summary,
        evidence=() if len(each) == 1 else (Evidence(excerpt="\n".join(shown)),),
        remedy=ShellCommand("ci-doctor doctor --fix leftovers/temporary-directories"),
    ).with_fix(Fix(words=f"remove {'; '.join(each)}", apply=partial(_remove, left)))
    return summary


def _remove(paths: Sequence[Path]) -> None:
    """Look again, then remove each. Raises UsageError, after all others, if some are in use by now."""
    used = in_use([str(path) for path in paths])
    for path in paths:
        if str(path) not in used:
            remove_abandoned(path)
    if used:
        raise UsageError(f"in use: {', '.join(sorted(used))}")


def _size(path: Path) -> str:
    total = count = 0
    for folder, _, names in os.walk(path):
        for name in names:
            count += 1
            if count > _COUNTED:
                return f"more than {size(total)}"
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118
    return size(total)


STALE_BUILD_LOCK: Final = Rule(
    id="doctor/stale-build-lock",
    severity=Severity.WARNING,
    meaning="torch.utils.cpp_extension builds under a lock, a file named `lock`. A killed build "
    "leaves the file, and each later one waits for its removal without end.",
    remedy="Remove the file.",
)


@check("leftovers/build-locks", title="locks of killed builds of torch's extensions")
def build_locks(context: CheckContext) -> Findings:
    named = context.environ.get("TORCH_EXTENSIONS_DIR")
    cache = context.environ.get("XDG_CACHE_HOME") or f"{context.environ.get('HOME', '~')}/.cache"
    # pathlib's expansion would raise for a user without a home directory.
    extensions = Path(named or os.path.expanduser(f"{cache}/torch_extensions"))  # noqa: PTH111
    # Resolved, as /proc shows the paths of open files.
    folder = (context.cwd / extensions).resolve()
    # FOLDER/py311_cu130/NAME/lock, and FOLDER/NAME/lock if TORCH_EXTENSIONS_DIR is set
    # (torch/utils/cpp_extension.py, _get_build_directory).
    locks = {str(path) for pattern in ("*/*/lock", "*/lock") for path in folder.glob(pattern)}
    if not locks:
        return f"no lock in {folder}"
    # Its holder has the file open (torch/utils/file_baton.py).
    stale = sorted(locks - in_use(locks))
    if stale:
        yield problem(
            STALE_BUILD_LOCK,
            f"no process in view holds {', '.join(stale)}, and each build there waits for its removal",
            remedy=ShellCommand(shlex.join(["rm", *stale])),
        )
    return f"{len(stale)} locks of killed builds in {folder}"
