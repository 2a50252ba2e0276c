# SPDX-License-Identifier: Apache-2.0
"""Reads the disks below the directories of a job: room, inodes, permissions, kind; and /dev/shm."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ci_doctor.checks.check import CheckResult, Findings, UndeterminedError, check, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.directories import (
    DirectoryRole,
    Disks,
    PlacedDirectory,
    mount_holding,
    names_of,
    read_disks,
    read_mounts,
)
from ci_doctor.checks.settings import ALL, SERVING, Workload
from ci_doctor.model.finding import Rule, Severity, ShellCommand
from ci_doctor.model.quantities import parse_size
from ci_doctor.render.formatting import size

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


CACHE_ON_NETWORK: Final = Rule(
    id="doctor/cache-on-network-disk",
    severity=Severity.NOTE,
    meaning="A cache of compiled kernels, or the temporary directory, lies on a network file system. "
    "Locks and renames behave differently there, and several jobs at once damage such caches.",
    remedy="Put these caches on a local disk by their variables.",
)
# Several processes write to these at once, and rely on locks and renames.
_DELICATE = frozenset(
    {DirectoryRole.TEMPORARY, DirectoryRole.OTHER_TEMPORARY, DirectoryRole.JIT_CACHE}
)


@check("machine/network-disks", title="caches on network file systems")
def network_disks(context: CheckContext) -> Findings:
    return (yield from networks_below(context.shared(read_disks)))


def networks_below(disks: Disks) -> Findings:
    """What to say of the kinds of `disks`. Raises UndeterminedError if no kind is known."""
    # What is mounted is known even if it does not answer.
    mounts = {each.mount.point: each.mount for each in disks.unanswered if each.mount is not None}
    for group in disks.by_device():
        mount = group[0].mount
        if mount is None:
            continue
        mounts[mount.point] = mount
        delicate = [each for each in group if each.directory.role in _DELICATE]
        if mount.is_network and delicate:
            verb = "lies" if len(delicate) == 1 else "lie"
            yield problem(
                CACHE_ON_NETWORK,
                f"{names_of(delicate)} {verb} on a network file system: {group[0].disk_name}",
            )
    if not mounts:
        raise UndeterminedError("/proc/self/mountinfo does not say what is mounted")
    places = [f"{each.point} ({each.kind})" for each in mounts.values() if each.is_network]
    summary = "no directory of the job lies on a network file system"
    if places:
        summary = f"on a network: {', '.join(places)}"
    return CheckResult(
        summary=summary,
        figures={str(point): mount.kind for point, mount in mounts.items()},
    )
