# SPDX-License-Identifier: Apache-2.0
"""Reads whether the requirements of installed distributions are met, as `pip check` does."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.distribution import InstalledDistribution
from ci_doctor.checks.python.installed_environment import (
    Examination,
    InstalledEnvironment,
    examine_each,
)
from ci_doctor.checks.python.pip_command import pip_line
from ci_doctor.checks.python.python_state import PythonState
from ci_doctor.checks.python.rules import REQUIREMENT_UNMET
from ci_doctor.checks.settings import ALL
from ci_doctor.identity.library_names import normal
from ci_doctor.model.finding import Evidence, ShellCommand
from ci_doctor.render.formatting import amount

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def _run(context: CheckContext) -> CheckResult:
    return examine_each(context, _examine)


def _examine(environment: InstalledEnvironment, _context: CheckContext) -> Examination:
    # The first on sys.path is what an import finds.
    installed: dict[str, InstalledDistribution] = {}
    for each in environment.distributions:
        installed.setdefault(each.name, each)
    markers = marker_values(environment.state)
    problems = []
    count = 0
    for distribution in environment.installed:
        unmet = {}
        for requirement in _requirements(distribution, markers):
            count += 1
            reason = _unmet(requirement, installed)
            if reason is not None:
                unmet[f"{requirement.name}{requirement.specifier}"] = reason
        python = _unmet_python(distribution, environment.state)
        if python is not None:
            unmet[distribution.name] = python
        if unmet:
            problems.append(_problem(environment, distribution, unmet))
    return Examination(
        observed=f"{amount(count, 'requirement')} compared with what is installed",
        problems=tuple(problems),
    )


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


def _requirements(
    distribution: InstalledDistribution, markers: Mapping[str, str]
) -> Iterator["Requirement"]:
    """Those that hold here without an extra. What cannot be read is left out."""
    from packaging.markers import InvalidMarker, UndefinedComparison, UndefinedEnvironmentName
    from packaging.requirements import InvalidRequirement, Requirement

    for line in distribution.requires:
        # Half of all lines are those of extras; to parse one takes 50 microseconds.
        if "extra ==" in line or "extra==" in line:
            continue
        try:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(dict(markers)):
                yield requirement
        except (InvalidRequirement, InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
            continue


def _unmet(
    requirement: "Requirement", installed: Mapping[str, InstalledDistribution]
) -> str | None:
    """Why it is not met, as a clause; None if it is."""
    from packaging.version import InvalidVersion, Version

    distribution = installed.get(normal(requirement.name))
    if distribution is None:
        return f"{requirement.name}{requirement.specifier}, which is not installed"
    try:
        version = Version(distribution.version)
    except InvalidVersion:
        return None  # that its metadata are damaged is said by another check
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"{requirement.name}{requirement.specifier}, and {distribution.version} is installed"


def _unmet_python(distribution: InstalledDistribution, state: PythonState) -> str | None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if distribution.requires_python is None:
        return None
    try:
        specifiers = SpecifierSet(distribution.requires_python)
    except InvalidSpecifier:
        return None
    if specifiers.contains(state.version, prereleases=True):
        return None
    return f"Python {specifiers}, and this is Python {state.version}"


def _problem(
    environment: InstalledEnvironment, distribution: InstalledDistribution, unmet: Mapping[str, str]
) -> Problem:
    """`unmet` maps a requirement to the reason."""
    reasons = "; ".join(unmet.values())
    summary = f"{distribution.words} requires {reasons}"
    evidence = (Evidence(file=str(distribution.folder / "METADATA")),)
    remedy = ShellCommand(pip_line(environment, "install", list(unmet)))
    return problem(REQUIREMENT_UNMET, summary, evidence=evidence, remedy=remedy)


CHECK = DoctorCheck(
    id="python/requirements",
    title="installed distributions have what they require",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
