# SPDX-License-Identifier: Apache-2.0
"""Reads editable installations: whether the sources that they lead to are there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.distribution import InstalledDistribution, editable_source
from ci_doctor.checks.python.installed_environment import (
    Examination,
    InstalledEnvironment,
    examine_each,
)
from ci_doctor.checks.python.pip_command import pip_line
from ci_doctor.checks.python.presence import absence
from ci_doctor.checks.python.rules import EDITABLE_BROKEN
from ci_doctor.checks.python.site_directory import SiteDirectory
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence, Severity, ShellCommand
from ci_doctor.render.formatting import amount

# What setuptools writes into the finder of an editable installation: module -> path.
_MAPPING = re.compile(r"^MAPPING\b[^=\n]*=\s*(\{.*?\})\s*$", re.MULTILINE | re.DOTALL)


def _run(context: CheckContext) -> CheckResult:
    return examine_each(context, _examine)


def _examine(environment: InstalledEnvironment, _context: CheckContext) -> Examination:
    problems: list[Problem] = []
    missing: list[Path] = []
    count = 0
    for distribution in environment.installed:
        source = editable_source(distribution)
        if source is None:
            continue
        count += 1
        reason = absence(source)
        if reason is not None:
            missing.append(source)
            problems.append(_without_source(environment, distribution, source, reason))
    for site in environment.sites:
        if site.is_installed_to:
            problems.extend(_of_site(site, missing))
    observed = f"{amount(count, 'editable installation')} by direct_url.json"
    return Examination(observed=observed, problems=tuple(problems))


def _without_source(
    environment: InstalledEnvironment,
    distribution: InstalledDistribution,
    source: Path,
    reason: str,
) -> Problem:
    summary = f"{distribution.words} is an editable installation of {source}, which {reason}"
    evidence = (Evidence(file=str(distribution.folder / "direct_url.json")),)
    remedy = ShellCommand(pip_line(environment, "uninstall", [distribution.name]))
    return problem(EDITABLE_BROKEN, summary, evidence=evidence, remedy=remedy)


def _of_site(site: SiteDirectory, missing: list[Path]) -> Iterator[Problem]:
    """Problems of finders, `.pth` files and links; what lies under `missing` has its problem."""
    for name in site.names:
        path = site.path / name
        for target, severity in _targets(path):
            reason = absence(target)
            # A finder maps a module of one file to its path without the ending.
            if reason is None or absence(f"{target}.py") is None:
                continue
            if not any(target.is_relative_to(source) for source in missing):
                yield _dead(path, f"{target}, which {reason}", severity)


def _targets(path: Path) -> Iterator[tuple[Path, Severity]]:
    """The paths that a file in a site directory leads to."""
    name = path.name
    if name.endswith(".egg-link"):
        yield from _first_line(path, Severity.ERROR)
    elif name.startswith("__editable__") and name.endswith("_finder.py"):
        for target in _mapped(path):
            yield target, Severity.ERROR
    elif name.endswith(".pth"):
        # Of a file that no installer has named, one cannot tell whether anything needs it.
        is_editable = name.startswith("__editable__") or name == "easy-install.pth"
        severity = Severity.ERROR if is_editable else Severity.WARNING
        yield from _path_lines(path, severity)


def _first_line(path: Path, severity: Severity) -> Iterator[tuple[Path, Severity]]:
    line = _text(path).partition("\n")[0].strip()
    if line:
        yield Path(line), severity


def _path_lines(path: Path, severity: Severity) -> Iterator[tuple[Path, Severity]]:
    """The lines of a `.pth` file that name a directory (site.py)."""
    for line in _text(path).splitlines():
        text = line.rstrip()
        if text and not text.startswith(("#", "import ", "import\t")):
            yield path.parent / text, severity


def _mapped(finder: Path) -> Iterator[Path]:
    match = _MAPPING.search(_text(finder))
    if match is None:
        return
    try:
        mapping = ast.literal_eval(match[1])
    except (ValueError, SyntaxError):
        return
    for target in mapping.values():
        yield Path(str(target))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _dead(path: Path, target: str, severity: Severity) -> Problem:
    summary = f"{path} leads to {target}"
    evidence = (Evidence(file=str(path)),)
    return problem(EDITABLE_BROKEN, summary, evidence=evidence, severity=severity)


CHECK = DoctorCheck(
    id="python/editable",
    title="editable installations lead to their sources",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
