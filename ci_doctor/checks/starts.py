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
    CUSTOMIZE,
    InterpreterStart,
    read_start,
    running_file,
    start_environment,
    start_words,
    written_by_files,
)
from ci_doctor.model.facts.preload import FileCondition, StartFile
from ci_doctor.model.finding import Evidence, NextStep, Rule, Severity, ShellCommand
from ci_doctor.preload.preload_rule import format_rules
from ci_doctor.preload.start_files import (
    FILES,
    HEAVY_US,
    SHADOWED,
    SITECUSTOMIZE_HEAVY,
    SITECUSTOMIZE_OF_THE_JOB,
    Inventory,
    SiteState,
    describe_cost,
    inventory_of,
    read_site,
)
from ci_doctor.render.formatting import amount, duration
from ci_doctor.system.processes.limited_runs import SeparateRun
from ci_doctor.system.processes.process import describe_exit

# A start takes 0.02 s. What takes longer than this, each job has to know.
_START_S: Final = 1.2
# Microseconds. The finder of an editable package takes 5 to 10 ms, twice in a virtual environment,
# and is what its owner wants. From here on a start takes several times as long as without the file.
_HEAVY_PATH_FILE_US: Final = 50_000
_EVIDENCE_LINES: Final = 12


class ObservedStarts(Struct, frozen=True, kw_only=True):
    """What ran at the starts of one interpreter.

    `sys_path` are the directories that it imports from. Without a report of the interpreter,
    `inventory` is None, and `unknown` says why; `ended_by` is the file that ended it, and
    `stderr` what was written there.
    """

    python: Path
    inventory: Inventory | None = None
    sys_path: tuple[str, ...] = ()
    unknown: str | None = None
    ended_by: str | None = None
    stderr: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[StartFile, ...]:
        """What runs at each start in the job, its PYTHONPATH counted in."""
        return () if self.inventory is None else (*self.inventory.files, *self.inventory.job_files)


def read_starts(context: CheckContext) -> tuple[ObservedStarts, ...]:
    """The starts of each interpreter of the job. For CheckContext.shared."""
    return tuple(_observed(target.python, context) for target in context.targets)


def _observed(python: Path, context: CheckContext) -> ObservedStarts:
    """A start without the job's PYTHONPATH, and one with it if there is one."""
    starts: list[InterpreterStart] = []
    for pythonpath in dict.fromkeys((None, context.environ.get("PYTHONPATH") or None)):
        watched = _watched(python, context, pythonpath)
        if isinstance(watched, ObservedStarts):
            return watched
        starts.append(watched)
    job = starts[1] if len(starts) > 1 else None
    inventory = inventory_of(python, starts[0], job)
    return ObservedStarts(python=python, inventory=inventory, sys_path=starts[0].path)


def _watched(
    python: Path, context: CheckContext, pythonpath: str | None
) -> InterpreterStart | ObservedStarts:
    """A start with this PYTHONPATH; or why there is no report of one."""
    environ = start_environment(context.environ, pythonpath)

    def run() -> tuple[SeparateRun, InterpreterStart | None]:
        ran = context.programs.run(
            start_words(python), cwd=context.cwd, environ=environ, timeout_s=_START_S
        )
        return ran, read_start(ran.stdout, ran.stderr)

    ran, start = run()
    blocks = start.blocks if start is not None else ()
    # The first start may have to read the files from disk. Then the second one counts.
    if any(_is_heavy(each.cost_us, each.name in CUSTOMIZE) for each in blocks):
        ran, start = run()
    if start is not None:
        return start
    # The time was up, or a file ended the interpreter.
    file = running_file(ran.stderr)
    if ran.exit_code is None:
        during = f", {file} was running" if file else ""
        return ObservedStarts(
            python=python, unknown=f"{python} did not start within {_START_S:g} s{during}"
        )
    return ObservedStarts(
        python=python,
        unknown=f"{python} did not say what it starts: {describe_exit(ran.exit_code)}",
        stderr=tuple(dict.fromkeys(written_by_files(ran.stderr))),
        ended_by=file,
    )


def _is_heavy(cost_us: int, is_customize: bool) -> bool:
    """Whether a file that costs so many microseconds is worth a warning."""
    return cost_us > (HEAVY_US if is_customize else _HEAVY_PATH_FILE_US)


def _known_starts(context: CheckContext) -> tuple[ObservedStarts, ...]:
    """The same once for all checks. Raises UndeterminedError if no interpreter reported its start."""
    starts = context.shared(read_starts)
    unknown = _unknown(starts)
    if unknown is not None and all(each.inventory is None for each in starts):
        raise UndeterminedError(unknown)
    return starts


def _unknown(starts: tuple[ObservedStarts, ...]) -> str | None:
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


def _failures(start: ObservedStarts) -> Iterator[Problem]:
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


@check(
    "starts/shadowed",
    title="each sitecustomize and usercustomize runs",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
)
def shadowed(context: CheckContext) -> Findings:
    starts = _known_starts(context)
    inventories = [each.inventory for each in starts if each.inventory is not None]
    for inventory in inventories:
        for finding in inventory.findings:
            if finding.rule in {SHADOWED.id, SITECUSTOMIZE_OF_THE_JOB.id}:
                yield Problem(finding=finding)
    never = sum(len(inventory.never) for inventory in inventories)
    summary = "each sitecustomize and usercustomize runs"
    if never:
        summary = f"{amount(never, 'file')} named sitecustomize or usercustomize never run"
    return CheckResult(summary=summary, unknown=_unknown(starts))


START_FILE_PRINTS: Final = Rule(
    id="doctor/start-file-prints",
    severity=Severity.WARNING,
    meaning="A file that runs at every start of the interpreter writes to stdout. What a script "
    'reads by `$(python -c "print(…)")` begins with these words.',
    remedy="Write to stderr there, or not at all.",
)


@check(
    "starts/printing",
    title="nothing is written to stdout at a start of Python",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
)
def printing(context: CheckContext) -> Findings:
    starts = _known_starts(context)
    printers = [(file, start) for start in starts for file in start.files if file.prints]
    for file, start in printers:
        yield problem(
            START_FILE_PRINTS,
            f"{file.path} writes to stdout at every start of {start.python}",
            evidence=(Evidence(file=file.path),),
        )
    wrote = f"{amount(len(printers), 'file')} wrote" if printers else "nothing is written"
    return CheckResult(summary=f"{wrote} to stdout at a start of Python", unknown=_unknown(starts))


PATH_FILE_HEAVY: Final = Rule(
    id="doctor/path-file-heavy",
    severity=Severity.WARNING,
    meaning="The import lines of a `.pth` file take more than 50 ms of every start of the "
    "interpreter, and every `python -c`, pip, and worker process pays for it.",
    remedy="Remove the package that brings the file if the job does not need it.",
)
# Packages that hook into each start on purpose, and what to do if this job does not need them.
_ON_PURPOSE: Final = {
    "coverage": "it measures every process: unset COVERAGE_PROCESS_START if nothing is measured",
    "ddtrace": "it traces every process: start the job without `ddtrace-run`, or uninstall ddtrace",
    "debugpy": "it debugs every process: uninstall debugpy where nobody debugs",
}


@check(
    "starts/cost",
    title="what runs at each start of Python is cheap",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
)
def cost_of_starts(context: CheckContext) -> Findings:
    starts = _known_starts(context)
    files = [(file, start) for start in starts for file in start.files]
    for file, start in files:
        if _is_heavy(file.cost_us, file.is_customize):
            names = [name.partition(".")[0] for name in file.imports]
            yield problem(
                SITECUSTOMIZE_HEAVY if file.is_customize else PATH_FILE_HEAVY,
                describe_cost(file, start.python),
                evidence=(Evidence(file=file.path),),
                remedy=next((_ON_PURPOSE[name] for name in names if name in _ON_PURPOSE), None),
            )
    total_us = sum(file.cost_us for file, _ in files)
    time = duration(total_us / 1e6)
    return CheckResult(
        summary=f"{amount(len(files), 'file')} at each start of Python, {time} in all",
        unknown=_unknown(starts),
        figures={"files": len(files), "microseconds": total_us},
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
    starts = _known_starts(context)
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
    return CheckResult(summary=summary, unknown=_unknown(starts))


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
