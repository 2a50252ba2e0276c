# SPDX-License-Identifier: Apache-2.0
"""Reads which distributions are installed twice, in part, for gone sources, or without what they require.

`pip check` says the last too. It is not called: it takes longer than a check may, and an environment
that uv has made has no pip.
"""

import ast
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ci_doctor.checks.check import CheckResult, Findings, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.environments import (
    InstalledEnvironment,
    Records,
    SiteDirectory,
    SiteKind,
    environment_check,
    read_records,
)
from ci_doctor.machine.host import content_of
from ci_doctor.machine.interpreters import PythonState, absence, is_file
from ci_doctor.machine.packages import Package, normal
from ci_doctor.model.finding import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION_TWICE: Final = Rule(
    id="doctor/distribution-twice",
    severity=Severity.ERROR,
    meaning="One distribution is installed twice. In one directory, its version and its files are those "
    "of either; in two directories, the first on sys.path hides the other.",
    remedy="Uninstall it until nothing is left, and install it once.",
)
FILES_OF_TWO_DISTRIBUTIONS: Final = Rule(
    id="doctor/files-of-two-distributions",
    severity=Severity.WARNING,
    meaning="Two distributions have installed the same files with different contents (opencv-python "
    "and its headless sister, onnxruntime and onnxruntime-gpu). The later one has won, and uninstalling "
    "one breaks the other.",
    remedy="Uninstall both, and install the one that the job needs.",
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
REQUIREMENT_UNMET: Final = Rule(
    id="doctor/requirement-unmet",
    severity=Severity.WARNING,
    meaning="An installed distribution requires another one that is missing or has another version; "
    "`pip check` says the same.",
    remedy="Install versions that fit together.",
)

# These write a RECORD always; conda and Debian need not.
_RECORDING: Final = frozenset({"pip", "uv"})
# Folders that wheels install by mistake, and nothing of the job imports.
_SHARED: Final = ("tests/", "test/", "docs/", "examples/", "benchmarks/", "scripts/")
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


@environment_check("python/shared-files", title="no file belongs to two distributions")
def shared_files(environment: InstalledEnvironment, context: CheckContext) -> Findings:
    """Files that two distributions have installed with different contents."""
    records = context.shared(read_records)
    count = 0
    for site in environment.sites:
        if not site.is_installed_to:
            continue
        pairs: dict[tuple[str, str], list[str]] = {}
        for names, path in _conflicts(site.packages, records):
            pairs.setdefault(names, []).append(f"{site.path}/{path}")
        count += len(pairs)
        by_name = {each.name: each for each in site.packages}
        for (first, second), paths in pairs.items():
            one, other = by_name[first], by_name[second]
            uninstall = environment.pip_line("uninstall", [first, second])
            install = environment.pip_line("install", [f"{second}=={other.version}"])
            yield problem(
                FILES_OF_TWO_DISTRIBUTIONS,
                f"{one.words} and {other.words} have both installed {amount(len(paths), 'file')}, "
                "with other contents",
                evidence=tuple(Evidence(file=path) for path in paths[:_SHOWN]),
                remedy=ShellCommand(f"{uninstall}\n{install}  # or {first}: one of them"),
            )
    return f"{amount(count, 'pair')} of distributions with the same files"


def _conflicts(
    packages: Sequence[Package], records: Records
) -> Iterator[tuple[tuple[str, str], str]]:
    """Two names, and a path that both have with different contents."""
    owners: dict[str, tuple[str, str]] = {}
    for package in packages:
        for file in records.get(package.folder, ()):
            name, digest = owners.setdefault(file.path, (package.name, file.digest))
            is_conflict = name != package.name and digest != file.digest
            if is_conflict and not file.path.startswith(_SHARED):
                yield (name, package.name), file.path


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


@environment_check("python/requirements", title="installed distributions have what they require")
def requirements(environment: InstalledEnvironment, _context: CheckContext) -> Findings:
    """Requirements of installed distributions that are missing or have another version."""
    # The first on sys.path is what an import finds.
    first = {each.name: each for each in reversed(environment.packages)}
    markers = marker_values(environment.state)
    count = 0
    for package in environment.installed:
        unmet = {}
        for requirement in _requirements(package, markers):
            count += 1
            reason = _unmet(requirement, first)
            if reason is not None:
                unmet[f"{requirement.name}{requirement.specifier}"] = reason
        python = _unmet_python(package, environment.state)
        if python is not None:
            unmet[package.name] = python
        if unmet:
            yield problem(
                REQUIREMENT_UNMET,
                f"{package.words} requires {'; '.join(unmet.values())}",
                evidence=(Evidence(file=str(package.folder / "METADATA")),),
                remedy=ShellCommand(environment.pip_line("install", list(unmet))),
            )
    return f"{amount(count, 'requirement')} compared with what is installed"


def marker_values(state: PythonState) -> Mapping[str, str]:
    """What the markers of requirements are compared with (PEP 508), for the target's interpreter."""
    implementations = {"cpython": "CPython", "pypy": "PyPy"}
    return {
        "implementation_name": state.implementation,
        "implementation_version": state.full_version,
        "os_name": "posix",
        "platform_machine": state.machine,
        "platform_python_implementation": implementations.get(state.implementation, ""),
        "platform_release": state.release,
        "platform_system": state.system,
        "platform_version": state.system_version,
        "python_full_version": state.full_version,
        "python_version": state.minor_version,
        "sys_platform": state.platform,
        "extra": "",
    }


def _requirements(package: Package, markers: Mapping[str, str]) -> Iterator["Requirement"]:
    """Those that hold here without an extra. What cannot be read is left out."""
    from packaging.markers import InvalidMarker, UndefinedComparison, UndefinedEnvironmentName
    from packaging.requirements import InvalidRequirement, Requirement

    for line in package.requires:
        # Half of all lines are those of extras; to parse one takes 50 microseconds.
        if "extra ==" in line or "extra==" in line:
            continue
        try:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(dict(markers)):
                yield requirement
        except (InvalidRequirement, InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
            continue


def _unmet(requirement: "Requirement", installed: Mapping[str, Package]) -> str | None:
    """Why it is not met, as a clause; None if it is."""
    from packaging.version import InvalidVersion, Version

    package = installed.get(normal(requirement.name))
    if package is None:
        return f"{requirement.name}{requirement.specifier}, which is not installed"
    try:
        version = Version(package.version)
    except InvalidVersion:
        return None  # that its metadata are damaged is said by another check
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"{requirement.name}{requirement.specifier}, and {package.version} is installed"


def _unmet_python(package: Package, state: PythonState) -> str | None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if package.requires_python is None:
        return None
    try:
        specifiers = SpecifierSet(package.requires_python)
    except InvalidSpecifier:
        return None
    if specifiers.contains(state.version, prereleases=True):
        return None
    return f"Python {specifiers}, and this is Python {state.version}"
