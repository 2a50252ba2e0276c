# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts each interpreter of the job, and judges the files that ran at its start."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    Findings,
    Need,
    Problem,
    UndeterminedError,
    check,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.machine.start_files import (
    read_start,
    running_file,
    start_environment,
    start_words,
    written_by_files,
)
from ci_doctor.model.facts.preparing import FileCondition, StartFile
from ci_doctor.model.outcome import Evidence, NextStep, Rule, Severity, ShellCommand
from ci_doctor.preload.preload_rule import format_rules
from ci_doctor.preload.start_files import FILES, SiteState, read_site
from ci_doctor.render.formatting import amount
from ci_doctor.system.processes.process import describe_exit

# A start takes 0.02 s. What takes longer than this, each job has to know.
_START_S: Final = 1.2
_EVIDENCE_LINES: Final = 12


class ObservedStart(Struct, frozen=True, kw_only=True):
    """A start of one interpreter, with the PYTHONPATH of the job.

    `sys_path` are the directories that it imports from. Without a report of the interpreter
    `unknown` says why; `ended_by` is the file that ended it, and `stderr` what was written there.
    """

    python: Path
    files: tuple[StartFile, ...] = ()
    sys_path: tuple[str, ...] = ()
    unknown: str | None = None
    ended_by: str | None = None
    stderr: tuple[str, ...] = ()


def read_starts(context: CheckContext) -> tuple[ObservedStart, ...]:
    """A start of each interpreter of the job. For CheckContext.shared."""
    return tuple(_observed(target.python, context) for target in context.targets)


def _observed(python: Path, context: CheckContext) -> ObservedStart:
    environ = start_environment(context.environ, context.environ.get("PYTHONPATH"))
    ran = context.programs.run(
        start_words(python), cwd=context.cwd, environ=environ, timeout_s=_START_S
    )
    start = read_start(ran.stdout, ran.stderr)
    if start is not None:
        return ObservedStart(python=python, files=start.files, sys_path=start.path)
    # The time was up, or a file ended the interpreter.
    file = running_file(ran.stderr)
    if ran.exit_code is None:
        during = f", {file} was running" if file else ""
        return ObservedStart(
            python=python, unknown=f"{python} did not start within {_START_S:g} s{during}"
        )
    return ObservedStart(
        python=python,
        unknown=f"{python} did not say what it starts: {describe_exit(ran.exit_code)}",
        stderr=tuple(dict.fromkeys(written_by_files(ran.stderr))),
        ended_by=file,
    )


def _unknown(starts: tuple[ObservedStart, ...]) -> str | None:
    """Why the starts of an interpreter are not known; None if all are."""
    return "; ".join(each.unknown for each in starts if each.unknown is not None) or None


START_FILE_FAILS: Final = Rule(
    id="doctor/start-file-fails",
    severity=Severity.WARNING,
    meaning="A file that runs at every start of the interpreter raises an exception. What it "
    "should set up is missing, such as the path of an editable package, and each start writes the "
    "error to stderr.",
    remedy="Install what it imports, or remove the file.",
)
START_FILE_ENDS_PYTHON: Final = Rule(
    id="doctor/start-file-ends-python",
    severity=Severity.ERROR,
    meaning="A file that runs at every start of the interpreter ends it: `site` catches Exception "
    "only, not SystemExit, KeyboardInterrupt or a signal.",
    remedy="Move the file away.",
)
# What `site` of CPython 3.8 to 3.14 writes before an exception that it catches.
_CAUGHT: Final = re.compile(r"Error (?:in (?:site|user)customize;|processing line \d+ of )")
# How the line of an exception begins: its class, such as `ModuleNotFoundError: `.
_EXCEPTION: Final = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Exit)\b")


@check(
    "starts/failing",
    title="no file fails at a start of Python",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
)
def failing(context: CheckContext) -> Findings:
    starts = context.shared(read_starts)
    problems = [each for start in starts for each in _failures(start)]
    yield from problems
    failed = f"{amount(len(problems), 'file')} failed" if problems else "no file fails"
    return CheckResult(summary=f"{failed} at a start of Python", unknown=_unknown(starts))


def _failures(start: ObservedStart) -> Iterator[Problem]:
    ending = start.ended_by
    if ending is not None:
        aside = ShellCommand(f"mv {shlex.quote(ending)} {shlex.quote(ending + '.aside')}")
        excerpt = "\n".join(start.stderr[-_EVIDENCE_LINES:]) or None
        yield problem(
            START_FILE_ENDS_PYTHON,
            f"{ending} ends every start of {start.python}",
            evidence=(Evidence(file=ending, excerpt=excerpt),),
            remedy=aside if ending.startswith("/") else None,
        )
    for file in start.files:
        if not any(_CAUGHT.match(line) for line in file.stderr):
            continue
        errors = [line.strip() for line in file.stderr if _EXCEPTION.match(line.strip())]
        error = errors[-1] if errors else file.stderr[-1].strip()
        lines = [line for line in file.stderr if line.strip()][-_EVIDENCE_LINES:]
        yield problem(
            START_FILE_FAILS,
            f"{file.path} fails at every start of {start.python}: {error}",
            evidence=(Evidence(file=file.path, excerpt="\n".join(lines)),),
        )


SHIM_BROKEN: Final = Rule(
    id="doctor/preload-shim-broken",
    severity=Severity.WARNING,
    meaning="The files of a preload shim are not as ci-doctor wrote them. The import race that it "
    "closed may be open again.",
    remedy="`ci-doctor preload status` says which, and `ci-doctor preload install` repairs it.",
)


@check(
    "starts/preload-shim",
    title="preload shims are as ci-doctor wrote them",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
)
def preload_shim(context: CheckContext) -> Findings:
    starts = context.shared(read_starts)
    unknown = _unknown(starts)
    if unknown is not None and not any(start.sys_path for start in starts):
        raise UndeterminedError(unknown)
    installed = broken = 0
    for start in starts:
        for directory in map(Path, start.sys_path):
            # A file with the name of one of a shim's.
            if not any((directory / name).exists() for name in FILES):
                continue
            installed += 1
            state = read_site(directory)
            if not state.is_whole:
                broken += 1
                yield _broken(start.python, directory, state)
    summary = "no preload shim is installed"
    if installed:
        summary = f"{amount(installed, 'preload shim')}, {broken} of them broken"
    return CheckResult(summary=summary, unknown=unknown)


def _broken(python: Path, directory: Path, state: SiteState) -> Problem:
    # Late: a broken shim is seldom, and this loads the rest of the room.
    from ci_doctor.preload.install import move_away

    remedy: NextStep | None = None
    if state.rules:
        words = ["ci-doctor", "preload", "install", "--python", str(python)]
        for rule in format_rules(state.rules):
            words += ["--rule", rule]
        remedy = ShellCommand(shlex.join(words))
    conditions = []
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
