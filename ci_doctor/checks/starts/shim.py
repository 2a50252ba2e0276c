# SPDX-License-Identifier: Apache-2.0
"""Reads whether the files of a preload shim are as ci-doctor wrote them."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.starts.observed import ObservedStarts, known_starts, unknown_starts
from ci_doctor.checks.starts.rules import SHIM_BROKEN
from ci_doctor.checks.starts.shim_repair import shim_repair
from ci_doctor.model.finding import Evidence, ShellCommand
from ci_doctor.preload.preload_rule import format_rules
from ci_doctor.preload.shim_files import FILES
from ci_doctor.preload.site import FileCondition, SiteState, read_site
from ci_doctor.render.formatting import amount


def _run(context: CheckContext) -> CheckResult:
    starts = known_starts(context)
    problems: list[Problem] = []
    installed = 0
    for start in starts:
        for directory, state in _shims(start):
            installed += 1
            if set(state.conditions.values()) != {FileCondition.OURS}:
                problems.append(_broken(start.python, directory, state))
    summary = "no preload shim is installed"
    if installed:
        summary = f"{amount(installed, 'preload shim')}, {len(problems)} of them broken"
    return CheckResult(summary=summary, problems=tuple(problems), unknown=unknown_starts(starts))


def _shims(start: ObservedStarts) -> Iterator[tuple[Path, SiteState]]:
    """The directories that hold a file with the name of one of a shim's, and their state."""
    for entry in start.sys_path:
        directory = Path(entry)
        if any((directory / name).exists() for name in FILES):
            yield directory, read_site(directory)


def _broken(python: Path, directory: Path, state: SiteState) -> Problem:
    conditions = []
    for name, condition in state.conditions.items():
        if condition is not FileCondition.OURS:
            conditions.append(f"{name} is {condition.value}")
    words = ["ci-doctor", "preload", "install", "--python", str(python)]
    for rule in format_rules(state.rules):
        words += ["--rule", rule]
    broken = problem(
        SHIM_BROKEN,
        f"the preload shim of {python} is broken: {', '.join(conditions)}",
        evidence=(Evidence(file=str(directory)),),
        remedy=ShellCommand(shlex.join(words)) if state.rules else None,
    )
    fix = shim_repair(python, directory, state)
    if fix is None:
        return broken
    return broken.with_fix(fix)


CHECK = DoctorCheck(
    id="starts/preload-shim",
    title="preload shims are as ci-doctor wrote them",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    run=_run,
)
