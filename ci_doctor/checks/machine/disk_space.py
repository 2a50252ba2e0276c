# SPDX-License-Identifier: Apache-2.0
"""Reads the room on the disks of temporary directories, caches, the checkout and the report."""

import shlex
from collections.abc import Sequence

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.disks import Disks, PlacedDirectory, names_of, read_disks
from ci_doctor.checks.machine.rules import DISK_FULL
from ci_doctor.checks.settings import ALL
from ci_doctor.model.parse_size import parse_size
from ci_doctor.render.formatting import size

# A tmpfs smaller than twice `min_free` is small by intention: it is judged by this share.
_NEARLY_FULL = 0.05


def _run(context: CheckContext) -> CheckResult:
    least = parse_size(context.settings.min_free)
    return space_result(context.shared(read_disks), least)


def space_result(disks: Disks, least: int) -> CheckResult:
    """What to say of the room on `disks`, if each must have `least` bytes free.

    Raises UndeterminedError if no disk says how much room it has.
    """
    reasons = [each.describe() for each in disks.unanswered]
    problems = []
    figures: dict[str, int] = {}
    summaries = []
    for group in disks.by_device():
        first = group[0]
        if first.is_read_only:
            continue
        if first.total == 0:
            reasons.append(f"{first.disk_name} does not say how much room it has")
            continue
        figures[f"{first.disk_name} free"] = first.free
        summaries.append(_room(first))
        short = _problem_of(group, least)
        if short is not None:
            problems.append(short)
    if not summaries:
        raise UndeterminedError("; ".join(reasons) or "no disk can be written to")
    return CheckResult(
        summary=_summary(summaries),
        problems=tuple(problems),
        unknown="; ".join(reasons) or None,
        figures=figures,
    )


def _summary(rooms: Sequence[str]) -> str:
    """The disk with the least room; the others are counted."""
    if len(rooms) == 1:
        return rooms[0]
    return f"{rooms[0]}, the least of {len(rooms)} disks"


def _room(disk: PlacedDirectory) -> str:
    return f"{disk.disk_name} has {size(disk.free)} free of {size(disk.total)}"


def _problem_of(group: Sequence[PlacedDirectory], least: int) -> Problem | None:
    disk = group[0]
    if disk.free >= needed_on(disk, least):
        return None
    summary = f"{_room(disk)}; {size(needed_on(disk, least))} are needed for {names_of(group)}"
    if disk.reserved:
        summary += f" ({size(disk.reserved)} more are reserved for root)"
    place = disk.existing if disk.mount is None else disk.mount.point
    # It lists and removes nothing.
    listing = f"du -xhd2 {shlex.quote(str(place))} 2>/dev/null | sort -h | tail -20"
    return problem(DISK_FULL, summary, remedy=f"remove what is large and of no use: `{listing}`")


def needed_on(disk: PlacedDirectory, least: int) -> int:
    """Bytes that must be free: `least`, or a share of a file system in memory that is small."""
    is_small = disk.total < 2 * least
    if is_small and disk.mount is not None and disk.mount.is_in_memory:
        return int(disk.total * _NEARLY_FULL)
    return least


CHECK = DoctorCheck(
    id="machine/disks",
    title="free space of caches and temporary directories",
    needed_for=ALL,
    run=_run,
)
