# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts each interpreter of the job, and reads what ran at its start."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.starts.limits import is_heavy
from ci_doctor.machine.start_files import (
    CUSTOMIZE,
    InterpreterStart,
    read_start,
    running_file,
    start_environment,
    start_words,
    written_by_files,
)
from ci_doctor.model.facts.preload import StartFile
from ci_doctor.preload.start_files import Inventory, inventory_of
from ci_doctor.system.processes.limited_runs import SeparateRun
from ci_doctor.system.processes.process import describe_exit

# A start takes 0.02 s. What takes longer than this, each job has to know.
_START_S: Final = 1.2


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
        if self.inventory is None:
            return ()
        return (*self.inventory.files, *self.inventory.job_files)


def read_starts(context: CheckContext) -> tuple[ObservedStarts, ...]:
    """The starts of each interpreter of the job. For CheckContext.shared."""
    return tuple(_observed(target.python, context) for target in context.targets)


def known_starts(context: CheckContext) -> tuple[ObservedStarts, ...]:
    """The same once for all checks. Raises UndeterminedError if no interpreter reported its start."""
    starts = context.shared(read_starts)
    unknown = unknown_starts(starts)
    if unknown is not None and all(each.inventory is None for each in starts):
        raise UndeterminedError(unknown)
    return starts


def unknown_starts(starts: tuple[ObservedStarts, ...]) -> str | None:
    """Why the starts of an interpreter are not known; None if all are."""
    reasons = [each.unknown for each in starts if each.unknown is not None]
    return "; ".join(reasons) or None


def _observed(python: Path, context: CheckContext) -> ObservedStarts:
    start = _watched(python, context, None)
    if isinstance(start, ObservedStarts):
        return start
    job: InterpreterStart | None = None
    pythonpath = context.environ.get("PYTHONPATH")
    if pythonpath:
        with_path = _watched(python, context, pythonpath)
        if isinstance(with_path, ObservedStarts):
            return with_path
        job = with_path
    inventory = inventory_of(python, start, job)
    return ObservedStarts(python=python, inventory=inventory, sys_path=start.path)


def _watched(
    python: Path, context: CheckContext, pythonpath: str | None
) -> InterpreterStart | ObservedStarts:
    """A start with this PYTHONPATH; or why there is no report of one."""
    ran = _start(python, context, pythonpath)
    start = read_start(ran.stdout, ran.stderr)
    # The first start may have to read the files from disk. Then the second one counts.
    if start is not None and _is_heavy(start):
        ran = _start(python, context, pythonpath)
        start = read_start(ran.stdout, ran.stderr)
    return start or _not_observed(python, ran)


def _is_heavy(start: InterpreterStart) -> bool:
    return any(is_heavy(each.cost_us, is_customize=each.name in CUSTOMIZE) for each in start.blocks)


def _start(python: Path, context: CheckContext, pythonpath: str | None) -> SeparateRun:
    return context.programs.run(
        start_words(python),
        cwd=context.cwd,
        environ=start_environment(context.environ, pythonpath),
        timeout_s=_START_S,
    )


def _not_observed(python: Path, ran: SeparateRun) -> ObservedStarts:
    """Why there is no report: the time was up, or a file ended the interpreter."""
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
