# SPDX-License-Identifier: Apache-2.0
"""Reads which directories of a job lie on network file systems."""

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.directories import Role
from ci_doctor.checks.machine.disks import PlacedDirectory, names_of, read_disks
from ci_doctor.checks.machine.rules import CACHE_ON_NETWORK
from ci_doctor.checks.result import CheckResult, problem

# Several processes write to these at once, and rely on locks and renames.
_DELICATE = frozenset({Role.TEMPORARY, Role.JIT_CACHE})


def _run(context: CheckContext) -> CheckResult:
    disks = context.shared(read_disks)
    kinds = {}
    problems = []
    on_network = 0
    for group in disks.by_device():
        mount = group[0].mount
        if mount is None:
            continue
        kinds[str(mount.point)] = mount.kind
        if not mount.is_network:
            continue
        on_network += 1
        delicate = [each for each in group if each.directory.role in _DELICATE]
        if delicate:
            problems.append(problem(CACHE_ON_NETWORK, _sentence(delicate)))
    return CheckResult(
        summary=_summary(on_network, len(kinds)),
        problems=tuple(problems),
        unknown=_unknown(len(kinds)) or disks.unknown(),
        figures=kinds,
    )


def _sentence(group: list[PlacedDirectory]) -> str:
    verb = "lies" if len(group) == 1 else "lie"
    return f"{names_of(group)} {verb} on a network file system: {group[0].disk_name}"


def _summary(on_network: int, disks: int) -> str:
    if on_network:
        return f"{on_network} of {disks} disks are network file systems"
    return "no directory of the job lies on a network file system"


def _unknown(mounts: int) -> str | None:
    return None if mounts else "/proc/self/mountinfo does not say what is mounted"


CHECK = DoctorCheck(
    id="machine/network-disks",
    title="caches on network file systems",
    run=_run,
)
