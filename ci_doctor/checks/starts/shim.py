# SPDX-License-Identifier: Apache-2.0
"""Reads whether the files of a preload shim are as ci-doctor wrote them."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.starts.observed import ObservedStarts, known_starts, unknown_starts
from ci_doctor.checks.starts.rules import SHIM_BROKEN
from ci_doctor.model.facts.preload import FileCondition
from ci_doctor.model.finding import Evidence, NextStep, ShellCommand
from ci_doctor.preload.install import move_away
from ci_doctor.preload.preload_rule import format_rules
from ci_doctor.preload.shim_files import FILES, SiteState, read_site
from ci_doctor.render.formatting import amount


def _run(context: CheckContext) -> CheckResult:
    starts = known_starts(context)
    problems: list[Problem] = []
    installed = 0
    for start in starts:
        for directory, state in _shims(start):
            installed += 1
            if not state.is_whole:
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
    remedy: NextStep | None = None
    words = ["ci-doctor", "preload", "install", "--python", str(python)]
    for rule in format_rules(state.rules):
        words += ["--rule", rule]
    if state.rules:
        remedy = ShellCommand(shlex.join(words))
    for name, condition in state.conditions.items():
        if condition is not FileCondition.OURS:
            conditions.append(f"{name} is {condition}")
        # An installation writes what is missing, and changes nothing that it did not write.
        if condition not in {FileCondition.OURS, FileCondition.ABSENT}:
            remedy = move_away(directory / name)
    return problem(
        SHIM_BROKEN,
        f"the preload shim of {python} is broken: {', '.join(conditions)}",
        evidence=(Evidence(file=str(directory)),),
        remedy=remedy,
    )


CHECK = DoctorCheck(
    id="starts/preload-shim",
    title="preload shims are as ci-doctor wrote them",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    run=_run,
)
