# SPDX-License-Identifier: Apache-2.0
"""Reads the directories that a job writes to, and the disk below each; nothing is written."""

import os
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from ci_doctor.checks.context import CheckContext
from ci_doctor.system import clock
from ci_doctor.system.files.own_directory import unescaped
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
