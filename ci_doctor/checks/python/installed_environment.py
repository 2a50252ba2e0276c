# SPDX-License-Identifier: Apache-2.0
"""Reads what is installed for each interpreter of the job: one reading for all checks of this area."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, Problem, UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.distribution import InstalledDistribution, distributions_in
from ci_doctor.checks.python.interpreter_starts import read_starts
from ci_doctor.checks.python.python_state import PythonState
from ci_doctor.checks.python.site_directory import SiteDirectory, site_directories
from ci_doctor.machine.interpreters import TargetInterpreter


class InstalledEnvironment(Struct, frozen=True, kw_only=True):
    """An interpreter that starts, its directories of packages, and what is installed there."""

    target: TargetInterpreter
    state: PythonState
    sites: tuple[SiteDirectory, ...]
    distributions: tuple[InstalledDistribution, ...]

    @property
    def python(self) -> Path:
        """The path that is run."""
        return self.target.python

    @property
    def installed(self) -> tuple[InstalledDistribution, ...]:
        """Those that an installer put there: not what lies beside a source by a .pth file."""
        return tuple(each for each in self.distributions if each.site.is_installed_to)


class Examination(Struct, frozen=True, kw_only=True):
    """What a check says of one interpreter; `observed` is a clause."""

    observed: str
    problems: tuple[Problem, ...] = ()
    unknown: str | None = None


def read_environments(context: CheckContext) -> tuple[InstalledEnvironment, ...]:
    """Each interpreter that starts; two names of one environment count once."""
    environments: dict[tuple[str, str], InstalledEnvironment] = {}
    for start in context.shared(read_starts):
        state = start.state
        if state is None or (state.prefix, state.version) in environments:
            continue
        sites = tuple(site_directories(state, context))
        all_distributions: list[InstalledDistribution] = []
        for site in sites:
            all_distributions.extend(distributions_in(site))
        environments[state.prefix, state.version] = InstalledEnvironment(
            target=start.target, state=state, sites=sites, distributions=tuple(all_distributions)
        )
    return tuple(environments.values())


def examine_each(
    context: CheckContext, examine: Callable[[InstalledEnvironment, CheckContext], Examination]
) -> CheckResult:
    """Examine each environment. An interpreter that does not start makes the result unknown.

    Raises UndeterminedError if none starts.
    """
    environments = context.shared(read_environments)
    reasons = _not_started(context)
    if not environments:
        raise UndeterminedError("; ".join(reasons))
    examinations = [examine(environment, context) for environment in environments]
    problems: list[Problem] = []
    for examination in examinations:
        problems.extend(examination.problems)
        if examination.unknown is not None:
            reasons.append(examination.unknown)
    return CheckResult(
        summary=_summary(environments, examinations),
        problems=tuple(problems),
        unknown="; ".join(reasons) or None,
    )


def _not_started(context: CheckContext) -> list[str]:
    reasons = []
    for start in context.shared(read_starts):
        if start.is_too_old:
            reasons.append(f"{start.target.python} is older than Python 3.6")
        elif start.state is None:
            reasons.append(f"{start.target.python} does not start")
    return reasons


def _summary(
    environments: Sequence[InstalledEnvironment], examinations: Sequence[Examination]
) -> str:
    if len(environments) == 1:
        return examinations[0].observed
    texts = []
    for environment, examination in zip(environments, examinations, strict=True):
        texts.append(f"{environment.python}: {examination.observed}")
    return "; ".join(texts)
