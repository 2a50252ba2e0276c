# SPDX-License-Identifier: Apache-2.0
"""Reads which distributions are installed twice, in part, or for sources that are gone."""

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from ci_doctor.checks.check import CheckResult, Findings, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.environments import (
    InstalledEnvironment,
    SiteDirectory,
    SiteKind,
    environment_check,
)
from ci_doctor.machine.host import content_of
from ci_doctor.machine.interpreters import absence, is_file
from ci_doctor.machine.packages import Package
from ci_doctor.model.finding import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount

DISTRIBUTION_TWICE: Final = Rule(
    id="doctor/distribution-twice",
    severity=Severity.ERROR,
    meaning="One distribution is installed twice. In one directory, its version and its files are those "
    "of either; in two directories, the first on sys.path hides the other.",
    remedy="Uninstall it until nothing is left, and install it once.",
)
INSTALLATION_INTERRUPTED: Final = Rule(
    id="doctor/installation-interrupted",
    severity=Severity.ERROR,
    meaning="An installation or removal was stopped in the middle: metadata are missing, or pip "
    "has left a folder whose name begins with a tilde.",
    remedy="Install the distribution again with `--force-reinstall`.",
)
EDITABLE_BROKEN: Final = Rule(
    id="doctor/editable-broken",
    severity=Severity.ERROR,
    meaning="An editable installation leads to a directory that does not exist or no longer holds the "
    "package, so that it cannot be imported.",
    remedy="Install it again from the checkout of this job.",
)

# These write a RECORD always; conda and Debian need not.
_RECORDING: Final = frozenset({"pip", "uv"})
_SHOWN: Final = 5
# What setuptools writes into the finder of an editable installation: module -> path.
_MAPPING = re.compile(r"^MAPPING\b[^=\n]*=\s*(\{.*?\})\s*$", re.MULTILINE | re.DOTALL)


@environment_check("python/duplicates", title="no distribution is installed twice")
def duplicates(environment: InstalledEnvironment, _context: CheckContext) -> Findings:
    """Of the copies in one directory an error; of those in two, what hides what."""
    by_name: dict[str, list[tuple[SiteDirectory, Package]]] = {}
    for site in environment.sites:
        for package in site.packages:
            # A source tree on sys.path has an egg-info, too: an editable installation shows it.
            is_copy = site.kind is SiteKind.PYTHONPATH and package.is_wheel
            if site.is_installed_to or is_copy:
                by_name.setdefault(package.name, []).append((site, package))
    for copies in by_name.values():
        yield from _of_copies(environment, copies)
    return f"{amount(len(by_name), 'distribution')} installed"


def _of_copies(
    environment: InstalledEnvironment, copies: Sequence[tuple[SiteDirectory, Package]]
) -> Iterator[Problem]:
    firsts = []
    for path, group in groupby(copies, lambda copy: copy[0].path):
        here = list(group)
        firsts.append(here[0])
        if len(here) > 1:
            yield _in_one_place(environment, path, [package for _, package in here])
    for other in firsts[1:]:
        if other[1].version != firsts[0][1].version:
            yield _hidden(*firsts[0], *other)


def _in_one_place(
    environment: InstalledEnvironment, path: Path, copies: Sequence[Package]
) -> Problem:
    versions = " and ".join(copy.version or "unknown" for copy in copies)
    folders = " ".join(shlex.quote(str(copy.folder)) for copy in copies)
    # Without a version the newest one of the index would come, and it may be a third one.
    latest = max(copies, key=_installed_at)
    return problem(
        DISTRIBUTION_TWICE,
        f"{copies[0].name} is installed twice in {path}, as {versions}",
        evidence=tuple(Evidence(file=str(copy.folder)) for copy in copies),
        remedy=ShellCommand(f"rm -r {folders} && {environment.reinstallation(latest).words}"),
    )


def _installed_at(copy: Package) -> float:
    try:
        return copy.folder.stat().st_mtime
    except OSError:
        return 0.0


def _hidden(
    site: SiteDirectory, first: Package, other_site: SiteDirectory, other: Package
) -> Problem:
    # To uninstall is right for one of the two only.
    remedy = f"uninstall {first.words} from {site.path}, if the job needs {other.words}"
    if site.kind is SiteKind.PYTHONPATH:
        remedy = f"leave {site.path} out of PYTHONPATH, if the job needs {other.words}"
    # An environment above another is made for that.
    return problem(
        DISTRIBUTION_TWICE,
        f"{first.words} in {site.path} hides {other.words} in {other_site.path} "
        f"({other_site.kind.value})",
        evidence=(Evidence(file=str(first.folder)), Evidence(file=str(other.folder))),
        severity=Severity.NOTE if site.kind is SiteKind.OWN else Severity.WARNING,
        remedy=remedy,
    )


@environment_check("python/installations", title="no installation was interrupted")
def installations(environment: InstalledEnvironment, _context: CheckContext) -> Findings:
    """What an interrupted installation or removal leaves in a site directory."""
    for site in environment.sites:
        # Folders that pip has renamed, to remove them at the end: it did not come to that.
        names = [name for name in site.names if name.startswith("~")]
        if site.is_installed_to and names:
            shown = ", ".join(names[:_SHOWN])
            paths = " ".join(shlex.quote(str(site.path / name)) for name in names)
            yield problem(
                INSTALLATION_INTERRUPTED,
                f"pip was stopped while it replaced packages in {site.path}, and left {shown}",
                evidence=tuple(Evidence(file=str(site.path / name)) for name in names[:_SHOWN]),
                remedy=ShellCommand(f"rm -r {paths}"),
                severity=Severity.WARNING,
            )
    private = []
    for package in environment.installed:
        if package.is_private:
            private.append(package.name)
            continue
        missing = _missing(package)
        if missing is not None:
            folder = shlex.quote(str(package.folder))
            install = environment.reinstallation(package).words
            yield problem(
                INSTALLATION_INTERRUPTED,
                f"{package.words} is not completely installed: {missing} in {package.folder}",
                evidence=(Evidence(file=str(package.folder)),),
                remedy=ShellCommand(f"rm -r {folder} && {install}"),
            )
    count = amount(len(environment.installed), "distribution")
    unknown = f"the metadata of {', '.join(private)} cannot be read" if private else None
    return CheckResult(summary=f"the metadata of {count} were read", unknown=unknown)


def _missing(package: Package) -> str | None:
    """What its folder lacks, as a clause; None if nothing."""
    if not package.has_metadata:
        file = "METADATA" if package.is_wheel else "PKG-INFO"
        path = package.folder / file
        if not package.is_wheel and is_file(package.folder):
            return "its egg-info names no version"
        return f"{file} names no name and version" if is_file(path) else f"there is no {file}"
    if not package.is_wheel or package.installer not in _RECORDING:
        return None
    record = package.record
    if not is_file(record):
        return "there is no RECORD"
    if record.stat().st_size == 0:
        return "RECORD is empty"
    return None


@environment_check("python/editable", title="editable installations lead to their sources")
def editable(environment: InstalledEnvironment, _context: CheckContext) -> Findings:
    """Editable installations, finders, `.pth` files and links that lead nowhere."""
    missing: list[Path] = []
    count = 0
    for package in environment.installed:
        source = package.origin.source
        if source is None or not package.origin.is_editable:
            continue
        count += 1
        reason = absence(source)
        if reason is not None:
            missing.append(source)
            yield problem(
                EDITABLE_BROKEN,
                f"{package.words} is an editable installation of {source}, which {reason}",
                evidence=(Evidence(file=str(package.origin_file)),),
                remedy=ShellCommand(environment.pip_line("uninstall", [package.name])),
            )
    for site in environment.sites:
        if site.is_installed_to:
            yield from _dead_links(site, missing)
    return f"{amount(count, 'editable installation')} by direct_url.json"


def _dead_links(site: SiteDirectory, missing: list[Path]) -> Iterator[Problem]:
    """Of finders, `.pth` files and links; what lies under `missing` has its problem."""
    for name in site.names:
        path = site.path / name
        for target, severity in _targets(path):
            reason = absence(target)
            # A finder maps a module of one file to its path without the ending.
            if reason is None or absence(f"{target}.py") is None:
                continue
            if not any(target.is_relative_to(source) for source in missing):
                yield problem(
                    EDITABLE_BROKEN,
                    f"{path} leads to {target}, which {reason}",
                    evidence=(Evidence(file=str(path)),),
                    severity=severity,
                )


def _targets(path: Path) -> Iterator[tuple[Path, Severity]]:
    """The paths that a file in a site directory leads to."""
    name = path.name
    if name.endswith(".egg-link"):
        line = content_of(path).partition("\n")[0].strip()
        if line:
            yield Path(line), Severity.ERROR
    elif name.startswith("__editable__") and name.endswith("_finder.py"):
        for target in _mapped(path):
            yield target, Severity.ERROR
    elif name.endswith(".pth"):
        # Of a file that no installer has named, one cannot tell whether anything needs it.
        is_editable = name.startswith("__editable__") or name == "easy-install.pth"
        severity = Severity.ERROR if is_editable else Severity.WARNING
        # The lines that name a directory (site.py).
        for text in map(str.rstrip, content_of(path).splitlines()):
            if text and not text.startswith(("#", "import ", "import\t")):
                yield path.parent / text, severity


def _mapped(finder: Path) -> Iterator[Path]:
    match = _MAPPING.search(content_of(finder))
    if match is None:
        return
    try:
        mapping = ast.literal_eval(match[1])
    except (ValueError, SyntaxError):
        return
    yield from (Path(str(target)) for target in mapping.values())
