# SPDX-License-Identifier: Apache-2.0
"""Acts on ci-doctor's own temporary directories for `--fix`; reads other files of earlier jobs."""

import contextlib
import os
import shlex
import stat
import tempfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from ci_doctor.checks.check import (
    CheckResult,
    Findings,
    Fix,
    UndeterminedError,
    check,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.errors import UsageError
from ci_doctor.model.finding import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount, duration, size
from ci_doctor.services.leak_places import in_use
from ci_doctor.system import clock
from ci_doctor.system.files.own_directory import abandoned_directories, remove_abandoned

_SHOWN = 10

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
        f"{file.path}, {size(file.size)}, {duration(file.age_s)} old" for file in left[:_SHOWN]
    ]
    if len(left) > _SHOWN:
        lines.append(f"and {len(left) - _SHOWN} more")
    is_much = total > _MUCH * usage.f_blocks * usage.f_frsize
    summary = f"{amount(len(left), 'file')} in {folder} that no process has open, {size(total)}"
    yield problem(
        STALE_SHARED_MEMORY,
        summary,
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy=ShellCommand(shlex.join(["rm", *(file.path for file in left)])),
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
    for path in left:
        words = f"{path}, {_size(path)}"
        yield problem(
            OWN_DIRECTORIES,
            f"a killed ci-doctor has left {words}",
            remedy=ShellCommand("ci-doctor doctor --fix leftovers/temporary-directories"),
        ).with_fix(Fix(words=f"remove {words}", apply=partial(_remove, path)))
    if not left:
        return f"nothing of an earlier ci-doctor in {folder}"
    return f"killed runs of ci-doctor have left {amount(len(left), 'folder')} in {folder}"


def _remove(path: Path) -> None:
    """Look again, then remove. Raises UsageError if it is in use by now."""
    if in_use([str(path)]):
        raise UsageError(f"{path} is in use")
    remove_abandoned(path)


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


UNFINISHED_DOWNLOADS: Final = Rule(
    id="doctor/unfinished-downloads",
    severity=Severity.NOTE,
    meaning="The cache of Hugging Face holds parts of files whose download was cut off. No process "
    "writes them any more. A later download begins anew or goes on with them.",
    remedy="Remove them if the disk is short.",
)
# A download writes all the time; one that waits for its server longer than this has been given up.
_GIVEN_UP_S = 3600.0


@check("leftovers/downloads", title="downloads of models that were cut off")
def downloads(context: CheckContext) -> Findings:
    cache = hub_cache(context.environ)
    if not cache.is_dir():
        return f"there is no {cache}"
    now = clock.epoch()
    sizes: dict[Path, int] = {}
    for path in cache.glob("*/blobs/*.incomplete"):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            if now - status.st_mtime >= _GIVEN_UP_S:
                sizes[path] = status.st_blocks * 512  # stat(2)
    if not sizes:
        return f"no unfinished download in {cache}"
    total = sum(sizes.values())
    summary = f"{amount(len(sizes), 'unfinished download')} in {cache}, {size(total)}"
    largest = sorted(sizes, key=lambda path: -sizes[path])[:_SHOWN]
    yield problem(
        UNFINISHED_DOWNLOADS,
        summary,
        evidence=(Evidence(excerpt="\n".join(f"{each}, {size(sizes[each])}" for each in largest)),),
        remedy=ShellCommand(
            shlex.join(["find", str(cache), "-name", "*.incomplete", "-mmin", "+60", "-delete"])
        ),
    )
    return CheckResult(summary=summary, figures={"bytes": total})


def hub_cache(environ: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps models (its constants.py): HF_HUB_CACHE, else below HF_HOME."""
    named = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return expanded(named)
    home = environ.get("HF_HOME")
    return expanded(home) / "hub" if home else user_cache(environ) / "huggingface" / "hub"


def user_cache(environ: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME`, else `.cache` in the home directory."""
    return expanded(environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '~')}/.cache")


def expanded(path: str) -> Path:
    """`path`, its `~` replaced if this user has a home directory; pathlib would raise without one."""
    return Path(os.path.expanduser(path))  # noqa: PTH111


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
    extensions = Path(named) if named else user_cache(context.environ) / "torch_extensions"
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
