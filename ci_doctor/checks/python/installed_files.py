# SPDX-License-Identifier: Apache-2.0
"""Reads the sizes of installed files, and compares them with RECORD: what is missing, what is changed."""

import os
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.distribution import InstalledDistribution
from ci_doctor.checks.python.elf_header import is_cut_off
from ci_doctor.checks.python.installed_environment import (
    Examination,
    InstalledEnvironment,
    examine_each,
)
from ci_doctor.checks.python.pip_command import reinstallation
from ci_doctor.checks.python.record import RecordedFile, Records, read_records
from ci_doctor.checks.python.rules import FILES_MISSING, PACKAGE_MODIFIED
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence, Severity
from ci_doctor.render.formatting import amount, size

_CODE: Final = (".py", ".so")
# Images are made smaller by removing these.
_DISPENSABLE: Final = ("/tests/", "/test/", "/testing/", "/docs/", "/examples/")
_SHOWN: Final = 4


class RecordedFileState(Enum):
    """How an installed file compares with its line in RECORD."""

    AS_RECORDED = "as recorded"
    MISSING = "missing"
    RESIZED = "of another size"
    UNKNOWN = "cannot be read"


def _run(context: CheckContext) -> CheckResult:
    records = context.shared(read_records)
    return examine_each(context, lambda environment, _: _examine(environment, records))


def _examine(environment: InstalledEnvironment, records: Records) -> Examination:
    problems: list[Problem] = []
    count = 0
    unreadable = 0
    for distribution in environment.installed:
        files = tuple(_looked_at(records.get(str(distribution.folder), ())))
        count += len(files)
        by_state = _by_state(distribution, files)
        unreadable += len(by_state[RecordedFileState.UNKNOWN])
        problems += _missing(environment, distribution, by_state[RecordedFileState.MISSING])
        resized = by_state[RecordedFileState.RESIZED]
        if resized:
            resized = _of_it_alone(environment, distribution, resized, records)
        problems += _resized(environment, distribution, resized)
    unknown = f"{amount(unreadable, 'installed file')} cannot be read" if unreadable else None
    return Examination(
        observed=f"{amount(count, 'installed file')} compared with RECORD",
        problems=tuple(problems),
        unknown=unknown,
    )


def _looked_at(files: Sequence[RecordedFile]) -> Iterator[RecordedFile]:
    for file in files:
        path = file.path
        if not path.endswith(_CODE) or any(part in f"/{path}" for part in _DISPENSABLE):
            continue
        if path.startswith("__editable__"):  # its target is the sources, wherever they are
            continue
        yield file


def _by_state(
    distribution: InstalledDistribution, files: Sequence[RecordedFile]
) -> dict[RecordedFileState, list[RecordedFile]]:
    states: dict[RecordedFileState, list[RecordedFile]] = {state: [] for state in RecordedFileState}
    top = str(distribution.site.path)
    for file in files:
        states[_state(f"{top}/{file.path}", file.size)].append(file)
    return states


def _state(path: str, recorded: int | None) -> RecordedFileState:
    try:
        size = os.stat(path).st_size  # noqa: PTH116 - thousands of files are looked at
    except (FileNotFoundError, NotADirectoryError):
        return RecordedFileState.MISSING
    except OSError:
        return RecordedFileState.UNKNOWN
    if recorded is not None and size != recorded:
        return RecordedFileState.RESIZED
    return RecordedFileState.AS_RECORDED


def _of_it_alone(
    environment: InstalledEnvironment,
    distribution: InstalledDistribution,
    files: Sequence[RecordedFile],
    records: Records,
) -> list[RecordedFile]:
    """Without those that another distribution has overwritten: `python/shared-files` names both."""
    paths: set[str] = set()
    for other in environment.installed:
        if other.folder != distribution.folder and other.site.path == distribution.site.path:
            paths.update(file.path for file in records.get(str(other.folder), ()))
    return [file for file in files if file.path not in paths]


def _missing(
    environment: InstalledEnvironment,
    distribution: InstalledDistribution,
    files: Sequence[RecordedFile],
) -> list[Problem]:
    if not files:
        return []
    summary = (
        f"{distribution.words} has installed {amount(len(files), 'file')} that no longer exist: "
        f"{_names(files)}"
    )
    if len(files) == 1:
        summary = f"{distribution.words} has installed {files[0].path}, which no longer exists"
    return [
        problem(
            FILES_MISSING,
            summary,
            evidence=_evidence(distribution, files),
            remedy=reinstallation(environment, distribution.name, distribution.version),
        )
    ]


def _resized(
    environment: InstalledEnvironment,
    distribution: InstalledDistribution,
    files: Sequence[RecordedFile],
) -> list[Problem]:
    if not files:
        return []
    is_cut = [file for file in files if _is_cut_off(distribution, file)]
    count = amount(len(files), "file")
    summary = f"{distribution.words} was changed in place: {count} with another size than in RECORD"
    if is_cut:
        summary = f"{distribution.words} has files without their end: {_names(is_cut)}"
    severity = Severity.ERROR if is_cut else Severity.WARNING
    return [
        problem(
            PACKAGE_MODIFIED,
            summary,
            evidence=_evidence(distribution, is_cut or files),
            remedy=reinstallation(environment, distribution.name, distribution.version),
            severity=severity,
        )
    ]


def _is_cut_off(distribution: InstalledDistribution, file: RecordedFile) -> bool:
    path = distribution.site.path / file.path
    try:
        return path.stat().st_size == 0 or is_cut_off(str(path))
    except OSError:
        return False


def _names(files: Sequence[RecordedFile]) -> str:
    return ", ".join(file.path for file in files[:_SHOWN])


def _evidence(
    distribution: InstalledDistribution, files: Sequence[RecordedFile]
) -> tuple[Evidence, ...]:
    evidence = []
    for file in files[:_SHOWN]:
        excerpt = None if file.size is None else f"RECORD: {size(file.size)}"
        evidence.append(Evidence(file=str(distribution.site.path / file.path), excerpt=excerpt))
    return tuple(evidence)


CHECK = DoctorCheck(
    id="python/files",
    title="installed files are there, as RECORD has them",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
