# SPDX-License-Identifier: Apache-2.0
"""Reads whether this user may write to the directories of a job; nothing is written."""

import shlex
from collections.abc import Iterable, Sequence

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.directories import DirectoryRole
from ci_doctor.checks.machine.disks import Disks, PlacedDirectory, names_of, read_disks
from ci_doctor.checks.machine.rules import NOT_WRITABLE, TMPDIR_MISSING
from ci_doctor.checks.settings import ALL, SERVING, Workload
from ci_doctor.model.finding import Severity, ShellCommand

# Nothing works around these: the job fails.
_NEEDED = frozenset({DirectoryRole.TEMPORARY, DirectoryRole.REPORT, DirectoryRole.CONFIGURED})


def _run(context: CheckContext) -> CheckResult:
    return writing_result(context.shared(read_disks), context.workload)


def writing_result(disks: Disks, workload: Workload | None) -> CheckResult:
    """What to say of the permissions on `disks`. Raises UndeterminedError if none is known."""
    looked_at = [
        each for each in disks.directories if each.directory.role is not DirectoryRole.SYSTEM
    ]
    if not looked_at:
        raise UndeterminedError(disks.unknown() or "no directory can be looked at")
    problems = [
        _not_writable(group, severity) for (_, severity), group in _refused(looked_at, workload)
    ]
    problems.extend(_missing_tmpdir(disks))
    refused = sum(not each.is_writable for each in looked_at)
    return CheckResult(
        summary=f"{len(looked_at) - refused} of {len(looked_at)} directories can be written to",
        problems=tuple(problems),
        unknown=disks.unknown(),
        figures={"directories": len(looked_at), "not_writable": refused},
    )


def _refused(
    directories: Sequence[PlacedDirectory], workload: Workload | None
) -> Iterable[tuple[tuple[str, Severity], list[PlacedDirectory]]]:
    """Those that cannot be written to, by the reason and by what it means for the job."""
    groups: dict[tuple[str, Severity], list[PlacedDirectory]] = {}
    for each in directories:
        if not each.is_writable:
            key = (_place(each), severity_for(each.directory.role, workload))
            groups.setdefault(key, []).append(each)
    return groups.items()


def _place(directory: PlacedDirectory) -> str:
    """What refuses: one directory, or a whole disk."""
    if directory.is_refused or not directory.is_read_only:
        return f"{directory.existing} {directory.is_refused}"
    return directory.disk_name


def _not_writable(group: Sequence[PlacedDirectory], severity: Severity) -> Problem:
    first = group[0]
    reason = f"this user may not write to {first.existing}"
    if first.is_refused:
        reason = f"this user may not reach {first.directory.path}"
    elif first.is_read_only:
        reason = f"{first.disk_name} is mounted read-only"
    elif not first.exists:
        missing = first.existing / first.directory.path.relative_to(first.existing).parts[0]
        reason = f"{missing} does not exist, and this user may not make it in {first.existing}"
    return problem(
        NOT_WRITABLE,
        f"{names_of(group)} cannot be written to: {reason}",
        severity=severity,
    )


def severity_for(role: DirectoryRole, workload: Workload | None) -> Severity:
    """An error if the job needs to write there. Models may be mounted read-only, so for these not."""
    if role in _NEEDED:
        return Severity.ERROR
    if role is DirectoryRole.JIT_CACHE and workload in SERVING:
        return Severity.ERROR
    if role is DirectoryRole.OTHER_TEMPORARY:
        return Severity.NOTE
    return Severity.WARNING


def _missing_tmpdir(disks: Disks) -> list[Problem]:
    problems = []
    for each in disks.directories:
        if each.directory.name == "TMPDIR" and not each.exists:
            path = each.directory.path
            making = ShellCommand(f"mkdir -p {shlex.quote(str(path))}")
            summary = f"TMPDIR names {path}, which does not exist"
            problems.append(problem(TMPDIR_MISSING, summary, remedy=making))
    return problems


CHECK = DoctorCheck(
    id="machine/writing",
    title="caches and temporary directories can be written to",
    needed_for=ALL,
    run=_run,
)
