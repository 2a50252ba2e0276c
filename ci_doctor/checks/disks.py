# SPDX-License-Identifier: Apache-2.0
"""Reads the directories that a job writes to, and the disk below each: room, inodes, permissions, kind; and /dev/shm."""

import os
import queue
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, Findings, UndeterminedError, check, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.settings import ALL, SERVING, Workload
from ci_doctor.model.outcome import Rule, Severity, ShellCommand
from ci_doctor.model.words import parse_size
from ci_doctor.render.formatting import size
from ci_doctor.system import clock
from ci_doctor.system.files.access import unescaped
from ci_doctor.system.processes.cpu_wait import CpuWaits, extended

# Well below the deadline of a check, so that one dead disk leaves the others known.
_LIMIT_S = 1.0
# Their room is memory, and small by intention.
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_NETWORK: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"}
)
K = TypeVar("K")
V = TypeVar("V")


class DirectoryRole(Enum):
    """What a directory is for."""

    TEMPORARY = "temporary files"
    OTHER_TEMPORARY = "temporary files of programs that ignore TMPDIR"
    WORKING = "the job's directory"
    REPORT = "reports"
    JIT_CACHE = "compiled kernels"
    DOWNLOAD_CACHE = "downloads, and what can be made again"
    CONFIGURED = "named in [doctor] caches"
    SYSTEM = "a service of the machine"


class JobDirectory(Struct, frozen=True, kw_only=True):
    """A directory, and the name by which people know it: a variable, or its usual place."""

    path: Path
    name: str
    role: DirectoryRole


class Mount(Struct, frozen=True, kw_only=True):
    """One mount: its directory, the kind of its file system, and what is mounted (a device)."""

    point: Path
    kind: str
    source: str

    @property
    def is_network(self) -> bool:
        """Whether files lie on another machine, or behind a program (FUSE)."""
        return self.kind in _NETWORK or self.kind == "fuse" or self.kind.startswith("fuse.")

    @property
    def is_in_memory(self) -> bool:
        """Whether files take memory."""
        return self.kind in _IN_MEMORY


class PlacedDirectory(Struct, frozen=True, kw_only=True):
    """A directory, and the disk that it lies on, or will lie on once it is made.

    `existing` is the nearest directory above (or itself) that exists. Sizes are bytes; `free` is
    what a user other than root may take, `reserved` what root may take beyond. `inodes` is 0 if the
    file system has no fixed number of them. `is_refused`: this user may not even ask whether the
    directory exists.
    """

    directory: JobDirectory
    existing: Path
    device: int
    mount: Mount | None
    total: int
    free: int
    reserved: int
    inodes: int
    inodes_free: int
    is_read_only: bool
    is_refused: bool
    is_writable: bool

    @property
    def exists(self) -> bool:
        """Whether the directory itself is there."""
        return self.existing == self.directory.path

    @property
    def top(self) -> Path:
        """Where its disk is mounted; the nearest directory that exists if that is not known."""
        return self.existing if self.mount is None else self.mount.point

    @property
    def disk_name(self) -> str:
        """`/ (ext4)`: where the disk is mounted, and its kind."""
        return str(self.top) if self.mount is None else f"{self.top} ({self.mount.kind})"


class UnansweredDirectory(Struct, frozen=True, kw_only=True):
    """A directory that could not be looked at, why, and what is mounted there."""

    directory: JobDirectory
    reason: str
    mount: Mount | None

    def describe(self) -> str:
        """One clause. A server that does not answer is the usual cause, so it is named."""
        text = f"{self.directory.path}: {self.reason}"
        if self.mount is None or not self.mount.is_network:
            return text
        return f"{text} ({self.mount.kind} of {self.mount.source})"


class Disks(Struct, frozen=True, kw_only=True):
    """All directories that could be looked at, and those that could not."""

    directories: tuple[PlacedDirectory, ...]
    unanswered: tuple[UnansweredDirectory, ...]

    def unknown(self) -> str | None:
        """Why some directories are unknown, as one clause; None if all are known."""
        return "; ".join(each.describe() for each in self.unanswered) or None

    def by_device(self) -> list[list[PlacedDirectory]]:
        """The directories of each file system, those with the least room first.

        The disk of a directory that refuses us is unknown.
        """
        groups: dict[int, list[PlacedDirectory]] = {}
        for each in self.directories:
            if not each.is_refused:
                groups.setdefault(each.device, []).append(each)
        return sorted(groups.values(), key=lambda group: group[0].free)


_DOWNLOADS: Final = DirectoryRole.DOWNLOAD_CACHE
_KERNELS: Final = DirectoryRole.JIT_CACHE
# variable; its usual place, below $XDG_CACHE_HOME or $HOME (empty: there is no such default); role
_CACHES: Final[tuple[tuple[str, str, str, DirectoryRole], ...]] = (
    ("HF_HOME", "cache", "huggingface", _DOWNLOADS),
    ("HF_HUB_CACHE", "", "", _DOWNLOADS),
    ("HUGGINGFACE_HUB_CACHE", "", "", _DOWNLOADS),
    ("HF_DATASETS_CACHE", "", "", _DOWNLOADS),
    ("HF_XET_CACHE", "", "", _DOWNLOADS),
    ("TORCH_HOME", "", "", _DOWNLOADS),
    ("PIP_CACHE_DIR", "cache", "pip", _DOWNLOADS),
    ("UV_CACHE_DIR", "cache", "uv", _DOWNLOADS),
    ("VLLM_CACHE_ROOT", "cache", "vllm", _KERNELS),
    ("TORCHINDUCTOR_CACHE_DIR", "", "", _KERNELS),
    ("DG_JIT_CACHE_DIR", "", "", _KERNELS),
    ("SGLANG_DG_CACHE_DIR", "", "", _KERNELS),
    ("TILELANG_CACHE_DIR", "", "", _KERNELS),
    ("TVM_FFI_CACHE_DIR", "", "", _KERNELS),
    ("CCACHE_DIR", "", "", _DOWNLOADS),
    ("TRITON_CACHE_DIR", "home", ".triton/cache", _KERNELS),
    ("CUDA_CACHE_PATH", "home", ".nv/ComputeCache", _KERNELS),
    ("FLASHINFER_WORKSPACE_BASE", "home", ".cache/flashinfer", _KERNELS),
)
_DOCKER: Final = "/var/lib/docker"


def job_directories(
    environ: Mapping[str, str], cwd: Path, caches: Sequence[str]
) -> tuple[JobDirectory, ...]:
    """Each directory once, the first name wins. `caches` are further ones, of the configuration.

    A relative path counts from `cwd`, as the job's programs take it.
    """
    home = environ.get("HOME")
    bases = {"home": home, "cache": environ.get("XDG_CACHE_HOME") or (home and f"{home}/.cache")}
    tmpdir = environ.get("TMPDIR")
    rows: list[tuple[str, str | None, DirectoryRole]] = [
        ("TMPDIR", tmpdir, DirectoryRole.TEMPORARY),
        ("/tmp", "/tmp", DirectoryRole.OTHER_TEMPORARY if tmpdir else DirectoryRole.TEMPORARY),
        ("/var/tmp", "/var/tmp", DirectoryRole.OTHER_TEMPORARY),
        ("the working directory", str(cwd), DirectoryRole.WORKING),
        ("CI_DOCTOR_REPORT_DIR", environ.get("CI_DOCTOR_REPORT_DIR"), DirectoryRole.REPORT),
    ]
    for variable, base, below, role in _CACHES:
        if environ.get(variable):
            rows.append((variable, environ[variable], role))
        elif bases.get(base):
            path = f"{bases[base]}/{below}"
            is_at_home = home and path.startswith(f"{home}/")
            rows.append((f"~{path.removeprefix(home or '')}" if is_at_home else path, path, role))
    rows += [(cache, cache, DirectoryRole.CONFIGURED) for cache in caches]
    rows.append((_DOCKER, _DOCKER, DirectoryRole.SYSTEM))
    by_path: dict[Path, JobDirectory] = {}
    for name, text, role in rows:
        if not text:
            continue
        place = Path(text)
        if home and place.parts[:1] == ("~",):
            place = Path(home).joinpath(*place.parts[1:])
        place = cwd / place
        by_path.setdefault(place, JobDirectory(path=place, name=name, role=role))
    return tuple(by_path.values())


def read_disks(context: CheckContext) -> Disks:
    """Look at each directory of the job and of its services. For CheckContext.shared."""
    own_places = job_directories(context.environ, context.cwd, context.settings.caches)
    by_path = {each.path: each for each in own_places}
    for spec in context.services.values():
        # A service may name others. A placeholder is filled at its start.
        own = {name: value for name, value in spec.env.items() if "{" not in value}
        environ = {**context.environ, **own}
        for each in job_directories(environ, context.cwd / (spec.cwd or ""), ()):
            by_path.setdefault(each.path, each)
    mounts = read_mounts(context)
    values, missing = answers_within(
        _LIMIT_S, {each: partial(_placed, each, mounts) for each in by_path.values()}
    )
    # Nobody is going to make these for the job: they are there, or they do not matter.
    made_by_others = {DirectoryRole.SYSTEM, DirectoryRole.OTHER_TEMPORARY}
    answered = [values[each] for each in by_path.values() if each in values]
    unanswered = [
        UnansweredDirectory(directory=each, reason=reason, mount=mount_holding(mounts, each.path))
        for each, reason in missing.items()
    ]
    return Disks(
        directories=tuple(
            each for each in answered if each.exists or each.directory.role not in made_by_others
        ),
        unanswered=tuple(unanswered),
    )


def _placed(directory: JobDirectory, mounts: Sequence[Mount]) -> PlacedDirectory:
    existing, is_refused = Path("/"), False
    for place in (directory.path, *directory.path.parents):
        try:
            place.stat()
        # FUSE refuses all users but the one who mounted it, root too.
        except PermissionError:
            is_refused = True
        except (FileNotFoundError, NotADirectoryError):
            continue
        else:
            existing = place
            break
    usage = os.statvfs(existing)
    return PlacedDirectory(
        directory=directory,
        existing=existing,
        device=existing.stat().st_dev,
        mount=mount_holding(mounts, Path(os.path.realpath(existing))),
        total=usage.f_blocks * usage.f_frsize,
        free=usage.f_bavail * usage.f_frsize,
        reserved=(usage.f_bfree - usage.f_bavail) * usage.f_frsize,
        inodes=usage.f_files,
        inodes_free=usage.f_favail,
        is_read_only=bool(usage.f_flag & os.ST_RDONLY),
        is_refused=is_refused,
        is_writable=not is_refused and os.access(existing, os.W_OK | os.X_OK, effective_ids=True),
    )


def names_of(directories: Iterable[PlacedDirectory]) -> str:
    """`TMPDIR, ~/.cache/uv`: the names of the directories."""
    return ", ".join(each.directory.name for each in directories)


def read_mounts(context: CheckContext) -> tuple[Mount, ...]:
    """All mounts in view, in their order (proc_pid_mountinfo(5)); none if /proc does not tell."""
    try:
        lines = (context.proc / "self" / "mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ()
    mounts = []
    for line in lines:
        before, separator, after = line.partition(" - ")
        fields, words = before.split(" "), after.split(" ")
        if separator and len(fields) >= 5 and len(words) >= 2:
            mounts.append(
                Mount(point=Path(unescaped(fields[4])), kind=words[0], source=unescaped(words[1]))
            )
    return tuple(mounts)


def mount_holding(mounts: Iterable[Mount], path: Path) -> Mount | None:
    """The mount that `path` (absolute, without symbolic links) lies on; None if none is known.

    Of two with one directory the later one counts: it hides the other.
    """
    nearest = None
    for mount in mounts:
        if path.is_relative_to(mount.point) and (
            nearest is None or len(mount.point.parts) >= len(nearest.point.parts)
        ):
            nearest = mount
    return nearest


def answers_within(
    limit_s: float, questions: Mapping[K, Callable[[], V]]
) -> tuple[dict[K, V], dict[K, str]]:
    """Ask each question in a thread of its own: the answers, and why others are missing.

    All together have `limit_s` seconds; time in which our threads waited for a CPU extends it. A
    thread in a system call that does not return (a dead NFS server) stays behind; it is a daemon.
    The text of an exception is a reason.
    """
    arrived: queue.SimpleQueue[tuple[K, V | Exception]] = queue.SimpleQueue()
    waits = CpuWaits(lambda: (os.getpid(),))
    before, began = waits.now(), clock.now()
    values: dict[K, V] = {}
    missing = dict.fromkeys(questions, f"no answer within {limit_s:g} s")
    awaited = set()

    for key, question in questions.items():
        try:
            threading.Thread(target=_ask, args=(key, question, arrived), daemon=True).start()
            awaited.add(key)
        except RuntimeError:  # the limit of threads
            missing[key] = "no thread could be started"
    while awaited:
        left_s = extended(limit_s, waits.since(before)) - (clock.now() - began)
        if left_s <= 0:
            break
        try:
            key, answer = arrived.get(timeout=left_s)
        except queue.Empty:
            continue  # the limit may have been extended meanwhile
        awaited.discard(key)
        if isinstance(answer, Exception):
            missing[key] = getattr(answer, "strerror", None) or str(answer)
        else:
            values[key] = answer
            del missing[key]
    return values, missing


def _ask(
    key: K, question: Callable[[], V], arrived: "queue.SimpleQueue[tuple[K, V | Exception]]"
) -> None:
    try:
        arrived.put((key, question()))
    # Whatever it is, nobody would hear of it in this thread.
    except Exception as error:  # noqa: BLE001
        arrived.put((key, error))


# Reads the disks below the directories of a job: room, inodes, permissions, kind; and /dev/shm.

SHARED_MEMORY_SMALL: Final = Rule(
    id="doctor/shared-memory-small",
    severity=Severity.ERROR,
    meaning="/dev/shm has less room than NCCL and the worker processes of a server need. A "
    "container has 64 MiB of it by default. Workers then die with a bus error.",
    remedy="Start the container with `--ipc=host` or `--shm-size=16g`. In Kubernetes, mount an "
    "`emptyDir` with `medium: Memory` at /dev/shm.",
)
SHARED_MEMORY_UNUSABLE: Final = Rule(
    id="doctor/shared-memory-unusable",
    severity=Severity.ERROR,
    meaning="/dev/shm is missing, or this user may not write there. POSIX shared memory, semaphores "
    "of multiprocessing and NCCL need it.",
    remedy="Mount a tmpfs there: `mount -t tmpfs -o mode=1777 tmpfs /dev/shm`, or start the container "
    "with `--ipc=host`.",
)
SHARED_MEMORY_ON_DISK: Final = Rule(
    id="doctor/shared-memory-on-disk",
    severity=Severity.WARNING,
    meaning="/dev/shm is no tmpfs, so what processes share there goes through a disk.",
    remedy="Mount a tmpfs there: `mount -t tmpfs -o mode=1777 tmpfs /dev/shm`.",
)


@check("machine/shared-memory", title="room in /dev/shm", needed_for=SERVING)
def shared_memory(context: CheckContext) -> Findings:
    place = context.dev / "shm"
    try:
        usage = os.statvfs(place)
    except FileNotFoundError:
        yield problem(SHARED_MEMORY_UNUSABLE, "/dev/shm does not exist")
        return "/dev/shm does not exist"
    free, total = usage.f_bavail * usage.f_frsize, usage.f_blocks * usage.f_frsize
    summary = f"/dev/shm has {size(free)} free of {size(total)}"
    least = parse_size(context.settings.shared_memory)
    mount = mount_holding(read_mounts(context), Path("/dev/shm"))
    if mount is not None and not mount.is_in_memory:
        yield problem(
            SHARED_MEMORY_ON_DISK,
            f"/dev/shm lies on {mount.point} ({mount.kind}), and not in memory",
        )
    if not os.access(place, os.W_OK | os.X_OK, effective_ids=True):
        yield problem(SHARED_MEMORY_UNUSABLE, "this user may not write to /dev/shm")
    if free < least:
        yield problem(SHARED_MEMORY_SMALL, f"{summary}; {size(least)} are needed")
    return CheckResult(summary=summary, figures={"free": free, "total": total})


DISK_FULL: Final = Rule(
    id="doctor/disk-full",
    severity=Severity.ERROR,
    meaning="A disk with a temporary directory, a cache or the checkout has less free than "
    "`min_free` of `[doctor]`. An installation, a download or a compilation then fails halfway "
    "with ENOSPC.",
    remedy="Remove what is no longer needed, or put the cache on another disk by its variable.",
)
# A tmpfs smaller than twice `min_free` is small by intention: it is judged by this share.
_NEARLY_FULL = 0.05


@check("machine/disks", title="free space of caches and temporary directories", needed_for=ALL)
def disk_space(context: CheckContext) -> Findings:
    return (yield from space_on(context.shared(read_disks), parse_size(context.settings.min_free)))


def space_on(disks: Disks, least: int) -> Findings:
    """What to say of the room on `disks`, if each must have `least` bytes free.

    Raises UndeterminedError if no disk says how much room it has.
    """
    reasons = [each.describe() for each in disks.unanswered]
    figures: dict[str, int] = {}
    rooms = []
    for group in disks.by_device():
        disk = group[0]
        if disk.is_read_only:
            continue
        if disk.total == 0:
            reasons.append(f"{disk.disk_name} does not say how much room it has")
            continue
        figures[f"{disk.disk_name} free"] = disk.free
        rooms.append(f"{disk.disk_name} has {size(disk.free)} free of {size(disk.total)}")
        needed = needed_on(disk, least)
        if disk.free >= needed:
            continue
        words = f"{rooms[-1]}; {size(needed)} are needed for {names_of(group)}"
        if disk.reserved:
            words += f" ({size(disk.reserved)} more are reserved for root)"
        # It lists and removes nothing.
        listing = f"du -xhd2 {shlex.quote(str(disk.top))} 2>/dev/null | sort -h | tail -20"
        yield problem(DISK_FULL, words, remedy=f"remove what is large and of no use: `{listing}`")
    if not rooms:
        raise UndeterminedError("; ".join(reasons) or "no disk can be written to")
    # The one with the least room; the others are counted.
    summary = rooms[0] if len(rooms) == 1 else f"{rooms[0]}, the least of {len(rooms)} disks"
    return CheckResult(summary=summary, unknown="; ".join(reasons) or None, figures=figures)


def needed_on(disk: PlacedDirectory, least: int) -> int:
    """Bytes that must be free: `least`, or a share of a file system in memory that is small."""
    is_small = disk.total < 2 * least
    if is_small and disk.mount is not None and disk.mount.is_in_memory:
        return int(disk.total * _NEARLY_FULL)
    return least


INODES_LOW: Final = Rule(
    id="doctor/inodes-low",
    severity=Severity.ERROR,
    meaning="A disk has hardly any inodes left: no file can be made there, however many bytes are "
    "free. The message is `No space left on device` all the same.",
    remedy="Remove directories with many small files, such as old virtual environments and caches.",
)
# A virtual environment with vLLM has some 50 000 files. A small file system has few inodes by
# intention, and is judged by their share.
_TOO_FEW, _TOO_FEW_SHARE = 10_000, 0.02
_FEW, _FEW_SHARE = 50_000, 0.1


@check("machine/inodes", title="free inodes of caches and temporary directories", needed_for=ALL)
def inodes(context: CheckContext) -> Findings:
    return (yield from inodes_on(context.shared(read_disks)))


def inodes_on(disks: Disks) -> Findings:
    """What to say of the inodes of `disks`. Raises UndeterminedError if there is none to look at."""
    groups = disks.by_device()
    if not groups:
        raise UndeterminedError(disks.unknown() or "no directory can be looked at")
    counted = [group for group in groups if group[0].inodes and not group[0].is_read_only]
    counted.sort(key=lambda group: group[0].inodes_free)
    rooms = []
    for group in counted:
        disk = group[0]
        rooms.append(f"{disk.disk_name} has {disk.inodes_free} inodes free of {disk.inodes}")
        severity = inode_severity(disk.inodes_free, disk.inodes)
        if severity is not None:
            place = shlex.quote(str(disk.top))
            listing = f"du -x --inodes -d3 {place} 2>/dev/null | sort -n | tail -20"
            yield problem(
                INODES_LOW,
                f"{rooms[-1]}: {names_of(group)}",
                remedy=f"remove what has many files and is of no use: `{listing}`",
                severity=severity,
            )
    return CheckResult(
        summary=rooms[0] if rooms else "no disk has a fixed number of inodes",
        unknown=disks.unknown(),
        figures={f"{each[0].disk_name} inodes free": each[0].inodes_free for each in counted},
    )


def inode_severity(free: int, total: int) -> Severity | None:
    """How bad it is that of `total` inodes `free` are left; None if it is not."""
    if free < min(_TOO_FEW, total * _TOO_FEW_SHARE):
        return Severity.ERROR
    return Severity.WARNING if free < min(_FEW, total * _FEW_SHARE) else None


NOT_WRITABLE: Final = Rule(
    id="doctor/directory-not-writable",
    severity=Severity.WARNING,
    meaning="This user may not write to a directory that a job writes to, or it lies on a read-only "
    "mount. For temporary files, reports and `caches` of `[doctor]` it is an error; for compiled "
    "kernels, too, if `--for` names a server.",
    remedy="Name another directory by its variable, or give it to this user.",
)
TMPDIR_MISSING: Final = Rule(
    id="doctor/tmpdir-missing",
    severity=Severity.WARNING,
    meaning="TMPDIR names a directory that does not exist. mktemp(1) and most programs fail; Python "
    "takes /tmp without a word.",
    remedy="Make the directory, or unset the variable.",
)
# Nothing works around these: the job fails.
_NEEDED = frozenset({DirectoryRole.TEMPORARY, DirectoryRole.REPORT, DirectoryRole.CONFIGURED})


@check(
    "machine/writing",
    title="caches and temporary directories can be written to",
    needed_for=ALL,
)
def writing(context: CheckContext) -> Findings:
    return (yield from writing_on(context.shared(read_disks), context.workload))


def writing_on(disks: Disks, workload: Workload | None) -> Findings:
    """What to say of the permissions on `disks`. Raises UndeterminedError if none is known."""
    ours = [each for each in disks.directories if each.directory.role is not DirectoryRole.SYSTEM]
    if not ours:
        raise UndeterminedError(disks.unknown() or "no directory can be looked at")
    refused = [each for each in ours if not each.is_writable]
    # One problem for what one place refuses, and for what it means to the job.
    groups: dict[tuple[str, Severity], list[PlacedDirectory]] = {}
    for each in refused:
        is_disk = each.is_read_only and not each.is_refused
        place = each.disk_name if is_disk else f"{each.existing} {each.is_refused}"
        groups.setdefault((place, writing_severity(each.directory.role, workload)), []).append(each)
    for (_, severity), group in groups.items():
        yield problem(
            NOT_WRITABLE,
            f"{names_of(group)} cannot be written to: {_refusal(group)}",
            severity=severity,
        )
    for each in disks.directories:
        if each.directory.name == "TMPDIR" and not each.exists:
            path = each.directory.path
            yield problem(
                TMPDIR_MISSING,
                f"TMPDIR names {path}, which does not exist",
                remedy=ShellCommand(f"mkdir -p {shlex.quote(str(path))}"),
            )
    return CheckResult(
        summary=f"{len(ours) - len(refused)} of {len(ours)} directories can be written to",
        unknown=disks.unknown(),
        figures={"directories": len(ours), "not_writable": len(refused)},
    )


def _refusal(group: Sequence[PlacedDirectory]) -> str:
    first = group[0]
    if first.is_refused:
        return f"this user may not reach {first.directory.path}"
    if first.is_read_only:
        return f"{first.disk_name} is mounted read-only"
    if first.exists:
        return f"this user may not write to {first.existing}"
    missing = first.existing / first.directory.path.relative_to(first.existing).parts[0]
    return f"{missing} does not exist, and this user may not make it in {first.existing}"


def writing_severity(role: DirectoryRole, workload: Workload | None) -> Severity:
    """An error if the job needs to write there. Models may be mounted read-only, so for these not."""
    if role in _NEEDED or (role is DirectoryRole.JIT_CACHE and workload in SERVING):
        return Severity.ERROR
    return Severity.NOTE if role is DirectoryRole.OTHER_TEMPORARY else Severity.WARNING


KERNELS_NOT_LOADABLE: Final = Rule(
    id="doctor/kernels-not-loadable",
    severity=Severity.WARNING,
    meaning="A cache of compiled kernels, or the temporary directory, lies on a file system that is "
    "mounted with noexec. Triton and torch.compile load what they compile as a library, and end with "
    "`failed to map segment from shared object`. For a cache it is an error if `--for` names a server.",
    remedy="Put it on another disk by its variable (TMPDIR, TRITON_CACHE_DIR, "
    "TORCHINDUCTOR_CACHE_DIR), or mount the file system with exec.",
)
# CUDA's own cache holds code for the GPU, and no libraries.
_NO_LIBRARIES = frozenset({"CUDA_CACHE_PATH", "~/.nv/ComputeCache"})
_LOADED_FROM = frozenset({DirectoryRole.TEMPORARY, DirectoryRole.JIT_CACHE})


@check("machine/noexec", title="compiled kernels can be loaded", needed_for=SERVING)
def noexec(context: CheckContext) -> Findings:
    disks = context.shared(read_disks)
    groups: dict[tuple[str, DirectoryRole], list[PlacedDirectory]] = {}
    for each in disks.directories:
        role, name = each.directory.role, each.directory.name
        if role not in _LOADED_FROM or name in _NO_LIBRARIES or each.is_refused:
            continue
        # The reading of the disks has answered for it just now.
        if os.statvfs(each.existing).f_flag & os.ST_NOEXEC:
            groups.setdefault((each.disk_name, role), []).append(each)
    for (disk, role), group in groups.items():
        is_fatal = role is DirectoryRole.JIT_CACHE and context.workload in SERVING
        yield problem(
            KERNELS_NOT_LOADABLE,
            f"no library can be loaded from {names_of(group)}: {disk} is mounted with noexec",
            severity=Severity.ERROR if is_fatal else Severity.WARNING,
        )
    refused = sum(map(len, groups.values()))
    summary = "libraries can be loaded from the caches of kernels and the temporary directory"
    if refused:
        summary = f"no library can be loaded from {refused} of the caches and temporary directories"
    return CheckResult(summary=summary, unknown=disks.unknown())
