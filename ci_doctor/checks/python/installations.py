# SPDX-License-Identifier: Apache-2.0
"""Reads what an interrupted installation or removal leaves in a site directory."""

import os
import shlex
from collections.abc import Iterator

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.distribution import InstalledDistribution, installer_of
from ci_doctor.checks.python.installed_environment import (
    Examination,
    InstalledEnvironment,
    examine_each,
)
from ci_doctor.checks.python.pip_command import reinstallation
from ci_doctor.checks.python.presence import absence, is_file
from ci_doctor.checks.python.rules import INSTALLATION_INTERRUPTED
from ci_doctor.checks.python.site_directory import SiteDirectory
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence, Severity, ShellCommand
from ci_doctor.render.formatting import amount

# These write a RECORD always; conda and Debian need not.
_RECORDING = frozenset({"pip", "uv"})


def _run(context: CheckContext) -> CheckResult:
    return examine_each(context, _examine)


def _examine(environment: InstalledEnvironment, _context: CheckContext) -> Examination:
    problems: list[Problem] = []
    for site in environment.sites:
        if site.is_installed_to:
            problems.extend(_left_aside(site))
    private = []
    for distribution in environment.installed:
        if _is_private(distribution):
            private.append(distribution.name)
            continue
        problem_or_none = _incomplete(environment, distribution)
        if problem_or_none is not None:
            problems.append(problem_or_none)
    count = amount(len(environment.installed), "distribution")
    unknown = f"the metadata of {', '.join(private)} cannot be read" if private else None
    return Examination(
        observed=f"the metadata of {count} were read", problems=tuple(problems), unknown=unknown
    )


def _is_private(distribution: InstalledDistribution) -> bool:
    """Whether the user may not read its metadata: what it lacks is then unknown."""
    folder = distribution.folder
    if is_file(folder):  # an egg-info of distutils
        return not os.access(folder, os.R_OK)
    if not os.access(folder, os.R_OK | os.X_OK):
        return absence(folder) is None
    files = [folder / name for name in ("METADATA", "PKG-INFO", "INSTALLER", "RECORD")]
    return any(is_file(file) and not os.access(file, os.R_OK) for file in files)


def _left_aside(site: SiteDirectory) -> Iterator[Problem]:
    """Folders that pip has renamed, to remove them at the end: it did not come to that."""
    names = [name for name in site.names if name.startswith("~")]
    if not names:
        return
    shown = ", ".join(names[:5])
    summary = f"pip was stopped while it replaced packages in {site.path}, and left {shown}"
    evidence = tuple(Evidence(file=str(site.path / name)) for name in names[:5])
    paths = " ".join(shlex.quote(str(site.path / name)) for name in names)
    yield problem(
        INSTALLATION_INTERRUPTED,
        summary,
        evidence=evidence,
        remedy=ShellCommand(f"rm -r {paths}"),
        severity=Severity.WARNING,
    )


def _incomplete(
    environment: InstalledEnvironment, distribution: InstalledDistribution
) -> Problem | None:
    missing = _missing(distribution)
    if missing is None:
        return None
    folder = shlex.quote(str(distribution.folder))
    install = reinstallation(environment, distribution.name, distribution.version).words
    remedy = ShellCommand(f"rm -r {folder} && {install}")
    summary = (
        f"{distribution.words} is not completely installed: {missing} in {distribution.folder}"
    )
    evidence = (Evidence(file=str(distribution.folder)),)
    return problem(INSTALLATION_INTERRUPTED, summary, evidence=evidence, remedy=remedy)


def _missing(distribution: InstalledDistribution) -> str | None:
    """What its folder lacks, as a clause; None if nothing."""
    if not distribution.has_metadata:
        file = "METADATA" if distribution.is_wheel else "PKG-INFO"
        path = distribution.folder / file
        if not distribution.is_wheel and is_file(distribution.folder):
            return "its egg-info names no version"
        return f"{file} names no name and version" if is_file(path) else f"there is no {file}"
    if not distribution.is_wheel or installer_of(distribution) not in _RECORDING:
        return None
    record = distribution.folder / "RECORD"
    if not is_file(record):
        return "there is no RECORD"
    if record.stat().st_size == 0:
        return "RECORD is empty"
    return None


CHECK = DoctorCheck(
    id="python/installations",
    title="no installation was interrupted",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
