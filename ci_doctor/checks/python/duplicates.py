# SPDX-License-Identifier: Apache-2.0
"""Reads which distributions are installed twice."""

import shlex
from collections.abc import Sequence

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.distribution import InstalledDistribution
from ci_doctor.checks.python.installed_environment import (
    Examination,
    InstalledEnvironment,
    examine_each,
)
from ci_doctor.checks.python.pip_command import reinstallation
from ci_doctor.checks.python.rules import DISTRIBUTION_TWICE
from ci_doctor.checks.python.site_directory import SiteKind
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence, Severity, ShellCommand
from ci_doctor.render.formatting import amount


def _run(context: CheckContext) -> CheckResult:
    return examine_each(context, _examine)


def _examine(environment: InstalledEnvironment, _context: CheckContext) -> Examination:
    by_name: dict[str, list[InstalledDistribution]] = {}
    for each in environment.distributions:
        if _counts(each):
            by_name.setdefault(each.name, []).append(each)
    problems: list[Problem] = []
    for copies in by_name.values():
        if len(copies) > 1:
            problems += _of_copies(environment, copies)
    return Examination(
        observed=f"{amount(len(by_name), 'distribution')} installed", problems=tuple(problems)
    )


def _counts(distribution: InstalledDistribution) -> bool:
    """A source tree on sys.path has an egg-info, too: it is what an editable installation shows."""
    if distribution.site.is_installed_to:
        return True
    return distribution.site.kind is SiteKind.PYTHONPATH and distribution.is_wheel


def _of_copies(
    environment: InstalledEnvironment, copies: Sequence[InstalledDistribution]
) -> list[Problem]:
    """Of the copies in one directory an error; of those in two, what hides what."""
    problems = []
    by_site: dict[str, list[InstalledDistribution]] = {}
    for copy in copies:
        by_site.setdefault(str(copy.site.path), []).append(copy)
    for path, here in by_site.items():
        if len(here) > 1:
            problems.append(_in_one_place(environment, path, here))
    first, *others = [here[0] for here in by_site.values()]
    problems += [_hidden(first, other) for other in others if other.version != first.version]
    return problems


def _in_one_place(
    environment: InstalledEnvironment, path: str, copies: Sequence[InstalledDistribution]
) -> Problem:
    versions = " and ".join(copy.version or "unknown" for copy in copies)
    name = copies[0].name
    folders = " ".join(shlex.quote(str(copy.folder)) for copy in copies)
    # Without a version the newest one of the index would come, and it may be a third one.
    install = reinstallation(environment, name, _latest(copies).version).words
    remedy = ShellCommand(f"rm -r {folders} && {install}")
    evidence = tuple(Evidence(file=str(copy.folder)) for copy in copies)
    summary = f"{name} is installed twice in {path}, as {versions}"
    return problem(DISTRIBUTION_TWICE, summary, evidence=evidence, remedy=remedy)


def _latest(copies: Sequence[InstalledDistribution]) -> InstalledDistribution:
    """The copy that was installed last."""

    def installed_at(copy: InstalledDistribution) -> float:
        try:
            return copy.folder.stat().st_mtime
        except OSError:
            return 0.0

    return max(copies, key=installed_at)


def _hidden(first: InstalledDistribution, other: InstalledDistribution) -> Problem:
    summary = (
        f"{first.words} in {first.site.path} hides {other.words} in {other.site.path} "
        f"({other.site.kind.value})"
    )
    evidence = (Evidence(file=str(first.folder)), Evidence(file=str(other.folder)))
    severity = Severity.WARNING
    if first.site.kind is SiteKind.OWN:
        severity = Severity.NOTE  # an environment above another is made for that
    return problem(
        DISTRIBUTION_TWICE,
        summary,
        evidence=evidence,
        severity=severity,
        remedy=_choice(first, other),
    )


def _choice(first: InstalledDistribution, other: InstalledDistribution) -> str:
    """What to do about two that lie in two directories: to uninstall is right for one of them only."""
    if first.site.kind is SiteKind.PYTHONPATH:
        return f"leave {first.site.path} out of PYTHONPATH, if the job needs {other.words}"
    return f"uninstall {first.words} from {first.site.path}, if the job needs {other.words}"


CHECK = DoctorCheck(
    id="python/duplicates",
    title="no distribution is installed twice",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
