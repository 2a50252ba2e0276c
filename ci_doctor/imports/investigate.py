# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: records a command, finds its hazards, and where that is asked for makes them happen."""

import contextlib
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.imports.analyse.hazard import Hazard, Kind
from ci_doctor.imports.analyse.hazards import find_hazards
from ci_doctor.imports.confirm.delays import Hold, grouped
from ci_doctor.imports.confirm.run import REPEATS, Confirmation, HeldRun, confirm, time_limit_s
from ci_doctor.imports.record.run import Recorded, Streams, record
from ci_doctor.imports.record.trace import Process
from ci_doctor.imports.report.conclude import Seen, judge
from ci_doctor.preload.immunity import self_replacement_race
from ci_doctor.preload.isolation import isolation
from ci_doctor.system.processes.interruption import Interruption

CANDIDATES = 10
_INTERPRETERS_ASKED = 8


class Plan(Struct, frozen=True, kw_only=True):
    """What is run and how: `output` is where the command's stdout goes, a file descriptor.

    At most `candidates` hazards are confirmed, each in at most `repeats` runs for each of its delays. `timeout_s` ends a
    command that does not end by itself.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str]
    output: int = 1
    timeout_s: float | None = None
    confirming: bool = False
    candidates: int = CANDIDATES
    repeats: int = REPEATS


class Investigation(Struct, frozen=True, kw_only=True):
    """What came of it: `runs` are those with a delay, in their order."""

    seen: Seen
    runs: tuple[HeldRun, ...] = ()


def investigate(
    plan: Plan, scratch: Path, logs: Path, interruption: Interruption, say: Callable[[str], None]
) -> Investigation:
    """Record, judge and confirm. Traces go into the folder `scratch`, what runs with a delay print into `logs`.

    `interruption` is handling signals; the first ends the run that is under way, and no other is made. Raises as `record`.
    """
    stdin = _Stdin()
    traces = _for_all_users(scratch / "recorded")
    recorded = record(
        plan.command,
        traces,
        environ=plan.environ,
        timeout_s=plan.timeout_s,
        streams=Streams(output=plan.output),
        interruption=interruption,
    )
    interpreters = ask_interpreters(recorded)
    found = find(recorded, interpreters)
    groups = grouped(found.hazards)
    runs: list[HeldRun] = []
    confirmations: tuple[Confirmation, ...] = ()
    if plan.confirming and interruption.received is None:

        def run(number: int, hold: Hold) -> HeldRun:
            stdin.rewind()
            runs.append(_held_run(plan, recorded, number, hold, (scratch, logs), interruption))
            return runs[-1]

        chosen = [group for group in groups if not group.has_fired][: plan.candidates]
        confirmations = confirm(chosen, run, say, repeats=plan.repeats)
    seen = Seen(
        recorded=recorded,
        judged=judge(groups, confirmations, confirming=plan.confirming),
        spared=found.spared,
        is_whole=found.is_whole,
        interpreters=interpreters,
        isolated=isolation(plan.command, plan.environ),
        confirming=plan.confirming,
    )
    return Investigation(seen=seen, runs=tuple(runs))


class FoundInAll(Struct, frozen=True, kw_only=True):
    """The hazards of all processes, and apart those that an immune interpreter does not have. `is_whole` as of `Found`."""

    hazards: tuple[Hazard, ...]
    spared: tuple[Hazard, ...]
    is_whole: bool


def find(recorded: Recorded, interpreters: Mapping[str, bool | None]) -> FoundInAll:
    """What each process has, put together."""
    hazards: list[Hazard] = []
    spared: list[Hazard] = []
    is_whole = True
    for process in recorded.processes:
        immune = interpreters.get(process.executable) is False
        found = find_hazards(process)
        is_whole = is_whole and found.is_whole
        for hazard in found.hazards:
            (spared if immune and hazard.kind is Kind.REPLACED else hazards).append(hazard)
    return FoundInAll(hazards=tuple(hazards), spared=tuple(spared), is_whole=is_whole)


def ask_interpreters(recorded: Recorded) -> dict[str, bool | None]:
    """Whether each interpreter that was seen is exposed to the race of self-replacing modules; None where it cannot say."""
    executables = dict.fromkeys(
        process.executable for process in recorded.processes if _is_python(process)
    )
    return {
        executable: _exposed(Path(executable))
        for executable in list(executables)[:_INTERPRETERS_ASKED]
    }


def _is_python(process: Process) -> bool:
    # A program that embeds Python names itself, and would be started with arguments that mean something else to it.
    return Path(process.executable).name.startswith("python")


def _exposed(python: Path) -> bool | None:
    try:
        return self_replacement_race(python)
    except (UsageError, InfraError):
        return None


def _held_run(
    plan: Plan,
    recorded: Recorded,
    number: int,
    hold: Hold,
    folders: tuple[Path, Path],
    interruption: Interruption,
) -> HeldRun:
    scratch, logs = folders
    traces = _for_all_users(scratch / f"held-{number}")
    logs.mkdir(parents=True, exist_ok=True)
    output, error = logs / f"held-{number}.stdout", logs / f"held-{number}.stderr"
    with output.open("wb") as stdout, error.open("wb") as stderr:
        held = record(
            plan.command,
            traces,
            environ=plan.environ,
            hold=hold,
            timeout_s=time_limit_s(recorded, hold, plan.timeout_s),
            streams=Streams(output=stdout.fileno(), error=stderr.fileno()),
            interruption=interruption,
        )
    same = _end(held) == _end(recorded)
    return HeldRun(
        number=number, hold=hold, recorded=held, output=output, error=error, ended_as_recorded=same
    )


def _for_all_users(folder: Path) -> Path:
    """The new `folder`: a command that drops its privileges, or starts children as others, goes on writing there."""
    folder.mkdir()
    if os.geteuid() == 0:
        folder.parent.chmod(0o711)  # its name is random, and cannot be listed
        folder.chmod(0o733)
    return folder


def _end(recorded: Recorded) -> tuple[object, ...]:
    return recorded.exit_code, recorded.signal, recorded.timed_out


class _Stdin:
    """Our stdin, which each run gets as the first one did, where it is a file."""

    def __init__(self) -> None:
        self._start: int | None = None
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(0).st_mode):
                self._start = os.lseek(0, 0, os.SEEK_CUR)

    def rewind(self) -> None:
        if self._start is not None:
            os.lseek(0, self._start, os.SEEK_SET)
