# SPDX-License-Identifier: Apache-2.0
"""Reads whether the user of the job may read the installed packages, and write their bytecode."""

import os
import shlex
import stat
from collections.abc import Iterator

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.installed_environment import (
    Examination,
    InstalledEnvironment,
    examine_each,
)
from ci_doctor.checks.python.presence import is_file
from ci_doctor.checks.python.rules import BYTECODE_UNWRITABLE, SITE_NOT_EXECUTABLE, SITE_UNREADABLE
from ci_doctor.checks.python.site_directory import SiteDirectory
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence, ShellCommand
from ci_doctor.render.formatting import amount

_SHOWN = 5


def _run(context: CheckContext) -> CheckResult:
    return examine_each(context, _examine)


def _examine(environment: InstalledEnvironment, _context: CheckContext) -> Examination:
    problems: list[Problem] = []
    sites = [site for site in environment.sites if site.is_installed_to]
    for site in sites:
        problems.extend(_unreadable(site))
        problems.extend(_unloadable(site))
        problems.extend(_uncompiled(environment, site))
    count = (
        amount(len(sites), "site directory")
        if len(sites) == 1
        else f"{len(sites)} site directories"
    )
    return Examination(observed=f"{count} looked at", problems=tuple(problems))


def _unreadable(site: SiteDirectory) -> Iterator[Problem]:
    """The directory itself, or what lies in it."""
    paths = [str(site.path)]
    if os.access(site.path, os.R_OK | os.X_OK):
        paths = list(_private_entries(site))
    if not paths:
        return
    shown = ", ".join(os.path.relpath(path, site.path) for path in paths[:_SHOWN])
    summary = f"{amount(len(paths), 'entry')} of {site.path} cannot be read: {shown}"
    if len(paths) > 1:
        summary = f"{len(paths)} entries of {site.path} cannot be read: {shown}"
    if paths == [str(site.path)]:
        summary = f"{site.path} cannot be read"
    remedy = ShellCommand(f"sudo chmod -R a+rX {shlex.quote(str(site.path))}")
    evidence = tuple(Evidence(file=path) for path in paths[:_SHOWN])
    yield problem(SITE_UNREADABLE, summary, evidence=evidence, remedy=remedy)


def _unloadable(site: SiteDirectory) -> Iterator[Problem]:
    """A file system that is mounted with `noexec`: nothing compiled is loaded from it."""
    try:
        flags = os.statvfs(site.path).f_flag
    except OSError:
        return
    if not flags & os.ST_NOEXEC:
        return
    summary = f"{site.path} lies on a file system that is mounted with noexec"
    remedy = (
        "make the environment on another file system, or let its administrator mount it with exec"
    )
    yield problem(SITE_NOT_EXECUTABLE, summary, remedy=remedy)


def _private_entries(site: SiteDirectory) -> Iterator[str]:
    """The entries that cannot be read, or the first file of a package or of its metadata."""
    for name in site.names:
        path = f"{site.path}/{name}"
        first = f"{path}/__init__.py"
        if name.endswith(".dist-info"):
            first = f"{path}/METADATA"
        if not _is_readable(path):
            yield path
        elif not _is_readable(first):
            yield first


def _is_readable(path: str) -> bool:
    """Whether it may be read; what does not exist may."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - hundreds of entries are looked at
    except OSError as error:
        return not isinstance(error, PermissionError)
    wanted = os.R_OK | os.X_OK if stat.S_ISDIR(mode) else os.R_OK
    return os.access(path, wanted)


def _uncompiled(environment: InstalledEnvironment, site: SiteDirectory) -> Iterator[Problem]:
    """Packages without bytecode, in a directory where it cannot be written."""
    if os.access(site.path, os.W_OK):
        return
    tag = environment.state.cache_tag
    names = []
    for name in site.names:
        folder = site.path / name
        is_package = "." not in name and is_file(folder / "__init__.py")
        if is_package and not is_file(folder / "__pycache__" / f"__init__.{tag}.pyc"):
            names.append(name)
    if not names:
        return
    shown = ", ".join(names[:_SHOWN])
    count = amount(len(names), "package")
    summary = f"{count} of {site.path} have no bytecode, and it cannot be written: {shown}"
    python = shlex.quote(str(environment.python))
    remedy = ShellCommand(f"sudo {python} -m compileall -q {shlex.quote(str(site.path))}")
    yield problem(BYTECODE_UNWRITABLE, summary, remedy=remedy)


CHECK = DoctorCheck(
    id="python/permissions",
    title="the user may read the installed packages",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
