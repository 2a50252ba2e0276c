# SPDX-License-Identifier: Apache-2.0
"""Reads which directories of a job lie on network file systems."""

from ci_doctor.checks.check import CheckResult, DoctorCheck, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.directories import DirectoryRole
from ci_doctor.checks.machine.disks import Disks, PlacedDirectory, names_of, read_disks
from ci_doctor.checks.machine.mounts import Mount
from ci_doctor.checks.machine.rules import CACHE_ON_NETWORK

# Several processes write to these at once, and rely on locks and renames.
_DELICATE = frozenset(
    {DirectoryRole.TEMPORARY, DirectoryRole.OTHER_TEMPORARY, DirectoryRole.JIT_CACHE}
)


def _run(context: CheckContext) -> CheckResult:
    return network_result(context.shared(read_disks))


def network_result(disks: Disks) -> CheckResult:
    """What to say of the kinds of `disks`. Raises UndeterminedError if no kind is known."""
    # What is mounted is known even if it does not answer.
    kinds = {each.mount.point: each.mount for each in disks.unanswered if each.mount is not None}
    problems = []
    for group in disks.by_device():
        mount = group[0].mount
        if mount is None:
            continue
        kinds[mount.point] = mount
        delicate = [each for each in group if each.directory.role in _DELICATE]
        if mount.is_network and delicate:
            problems.append(problem(CACHE_ON_NETWORK, _sentence(delicate)))
    if not kinds:
        raise UndeterminedError("/proc/self/mountinfo does not say what is mounted")
    return CheckResult(
        summary=_summary(list(kinds.values())),
        problems=tuple(problems),
        figures={str(point): mount.kind for point, mount in kinds.items()},
    )


def _sentence(group: list[PlacedDirectory]) -> str:
    verb = "lies" if len(group) == 1 else "lie"
    return f"{names_of(group)} {verb} on a network file system: {group[0].disk_name}"


def _summary(mounts: list[Mount]) -> str:
    places = [f"{mount.point} ({mount.kind})" for mount in mounts if mount.is_network]
    if not places:
        return "no directory of the job lies on a network file system"
    return f"on a network: {', '.join(places)}"


CHECK = DoctorCheck(
    id="machine/network-disks",
    title="caches on network file systems",
    run=_run,
)
