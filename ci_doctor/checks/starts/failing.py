# SPDX-License-Identifier: Apache-2.0
"""Reads which files that run at each start raise an exception, or end the interpreter."""

import re
import shlex
from typing import Final

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.starts.observed import ObservedStarts, read_starts, unknown_starts
from ci_doctor.checks.starts.rules import START_FILE_ENDS_PYTHON, START_FILE_FAILS
from ci_doctor.model.facts.preload import StartFile
from ci_doctor.model.finding import Evidence, ShellCommand
from ci_doctor.render.formatting import amount

# What `site` of CPython 3.8 to 3.14 writes before an exception that it catches.
_CAUGHT: Final = re.compile(r"Error (?:in (?:site|user)customize;|processing line \d+ of )")
# How the line of an exception begins: its class, such as `ModuleNotFoundError: `.
_EXCEPTION: Final = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Exit)\b")
_EVIDENCE_LINES: Final = 12


def _run(context: CheckContext) -> CheckResult:
    starts = context.shared(read_starts)
    problems = []
    for start in starts:
        if start.ended_by is not None:
            problems.append(_ending(start, start.ended_by))
        failing = filter(_fails, start.files)
        problems.extend(_failing(file, start) for file in failing)
    summary = "no file fails at a start of Python"
    if problems:
        summary = f"{amount(len(problems), 'file')} failed at a start of Python"
    return CheckResult(summary=summary, problems=tuple(problems), unknown=unknown_starts(starts))


def _fails(file: StartFile) -> bool:
    return any(_CAUGHT.match(line) for line in file.stderr)


def _failing(file: StartFile, start: ObservedStarts) -> Problem:
    error = _exception_line(file)
    lines = [line for line in file.stderr if line.strip()][-_EVIDENCE_LINES:]
    return problem(
        START_FILE_FAILS,
        f"{file.path} fails at every start of {start.python}: {error}",
        evidence=(Evidence(file=file.path, excerpt="\n".join(lines)),),
    )


def _exception_line(file: StartFile) -> str:
    for line in reversed(file.stderr):
        if _EXCEPTION.match(line.strip()):
            return line.strip()
    return file.stderr[-1].strip()


def _ending(start: ObservedStarts, file: str) -> Problem:
    aside = f"mv {shlex.quote(file)} {shlex.quote(file + '.aside')}"
    is_path = file.startswith("/")
    excerpt = "\n".join(start.stderr[-_EVIDENCE_LINES:]) or None
    return problem(
        START_FILE_ENDS_PYTHON,
        f"{file} ends every start of {start.python}",
        evidence=(Evidence(file=file, excerpt=excerpt),),
        remedy=ShellCommand(aside) if is_path else None,
    )


CHECK = DoctorCheck(
    id="starts/failing",
    title="no file fails at a start of Python",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    run=_run,
)
