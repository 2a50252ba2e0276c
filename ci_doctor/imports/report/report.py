# SPDX-License-Identifier: Apache-2.0
"""The fields of a recording's report: facts, sections, attempts, cases. Pure."""

import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from ci_doctor.imports.analyse.hazard import Hazard
from ci_doctor.imports.confirm.run import HeldRun
from ci_doctor.imports.record.events import Deadlock, End, Wait
from ci_doctor.imports.record.run import Recorded
from ci_doctor.imports.record.trace import Process
from ci_doctor.imports.report.conclude import Judged, Seen, Standing, how_it_ended
from ci_doctor.imports.report.findings import shown, standings, what
from ci_doctor.model.outcome import Attempt, Case, CaseOutcome
from ci_doctor.model.table import Table, text_table
from ci_doctor.preload.preload_rule import format_rule

_PROCESSES_SHOWN = 6


def facts(seen: Seen) -> dict[str, Any]:
    """What was recorded, as JSON values."""
    run = seen.recorded
    return {
        "hazards": [
            _hazard_facts(judged, hazard)
            for judged in seen.judged
            for hazard in judged.candidate.hazards
        ],
        "immune_to": [_plain(hazard) for hazard in seen.spared],
        "counts": {
            **standings(seen.judged),
            "processes": len(run.processes),
            "threads": sum(len(process.threads) for process in run.processes),
            "loaded": sum(map(_loaded, run.processes)),
            "waits": sum(_count(process, Wait) for process in run.processes),
            "deadlocks": sum(_count(process, Deadlock) for process in run.processes),
        },
        "interpreters": {
            executable: "unknown" if exposed is None else "exposed" if exposed else "immune"
            for executable, exposed in seen.interpreters.items()
        },
        "processes": [_process_facts(process) for process in run.processes],
        "command": {
            "exit_code": run.exit_code,
            "signal": run.signal,
            "duration_s": round(run.duration_s, 3),
            "timed_out": run.timed_out,
            "outlived": list(run.outlived),
            "isolated": seen.isolated,
        },
        "analysis": {
            "is_whole": seen.is_whole,
        },
    }


def _hazard_facts(judged: Judged, hazard: Hazard) -> dict[str, Any]:
    run = judged.confirmation.fired_in if judged.confirmation is not None else None
    return {
        **_plain(hazard),
        "standing": str(judged.standing),
        "hold": run.hold.text() if run is not None else None,
    }


def _plain(hazard: Hazard) -> dict[str, Any]:
    rule = hazard.remedy.rule
    plain: dict[str, Any] = msgspec.to_builtins(hazard)
    return {
        **plain,
        "remedy": {**plain["remedy"], "rule": format_rule(rule) if rule is not None else None},
    }


def _process_facts(process: Process) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "parent_pid": process.parent_pid,
        "executable": process.executable,
        "version": process.version,
        "argv": list(process.argv),
        "forked": process.forked,
        "threads": [thread.name for thread in process.threads.values()],
        "loaded": _loaded(process),
        "waits": _count(process, Wait),
        "deadlocks": _count(process, Deadlock),
        "escapes": [{"argv": list(escape.argv), "why": escape.why} for escape in process.escapes],
        "ended_by_itself": process.exited_ns is not None,
        "truncated": process.truncated,
    }


def _loaded(process: Process) -> int:
    return sum(isinstance(event, End) and event.status == "loaded" for event in process.events)


def _count(process: Process, kind: type) -> int:
    return sum(isinstance(event, kind) for event in process.events)


def sections(seen: Seen) -> tuple[Table, ...]:
    """Who was recorded, and what was asked of the interpreters."""
    processes = seen.recorded.processes
    lines = [_process_line(process) for process in processes[:_PROCESSES_SHOWN]]
    if len(processes) > _PROCESSES_SHOWN:
        lines.append(f"… and {len(processes) - _PROCESSES_SHOWN} more")
    found = [text_table(title="Recorded", lines=tuple(lines))] if lines else []
    verdicts = {True: "is exposed to", False: "is immune to", None: "could not be asked about"}
    asked = [
        f"{shown(executable)} {verdicts[exposed]} the race of self-replacing modules"
        for executable, exposed in seen.interpreters.items()
    ]
    return (*found, *([text_table(title="Interpreter", lines=tuple(asked))] if asked else []))


def _process_line(process: Process) -> str:
    words = shlex.join(process.argv) or shown(process.executable)
    short = words if len(words) <= 60 else f"{words[:59]}…"
    threads = len(process.threads)
    return (
        f"{process.pid}  {short}  Python {process.version}, {_loaded(process)} modules loaded, "
        f"{threads} {'thread' if threads == 1 else 'threads'}"
    )


def attempts(seen: Seen, runs: Sequence[HeldRun], logs: dict[int, str]) -> tuple[Attempt, ...]:
    """The recorded run, and each run with a delay; `logs` are where what these printed is kept."""
    recorded = seen.recorded
    fired = bool(seen.having(Standing.FIRED))
    first = Attempt(
        name="recorded",
        outcome=_outcome(recorded, "a race fired" if fired else None),
        ok=not fired and not seen.command_failed,
        duration_s=round(recorded.duration_s, 3),
    )
    return (first, *(_attempt(run, seen, logs.get(run.number)) for run in runs))


def _attempt(run: HeldRun, seen: Seen, log: str | None) -> Attempt:
    shows = [
        judged
        for judged in seen.judged
        if judged.confirmation and judged.confirmation.fired_in is run
    ]
    came = "met, nothing happened" if run.met else "nobody came" if run.was_held else "not held"
    said = (
        f"fired: {', '.join(what(judged.candidate.worst) for judged in shows)}" if shows else came
    )
    return Attempt(
        name=f"held {run.number}",
        outcome=f"{_outcome(run.recorded, said)} ({run.hold.text()})",
        ok=not shows,
        duration_s=round(run.recorded.duration_s, 3),
        log=log,
        facts={
            "hold": run.hold.text(),
            "held": run.was_held,
            "met": run.met,
            "fired": bool(shows),
            "exit_code": run.recorded.exit_code,
            "signal": run.recorded.signal,
            "same_end_as_recorded": run.ended_as_recorded,
        },
    )


def _outcome(recorded: Recorded, said: str | None) -> str:
    ended = "stopped when the time was up" if recorded.timed_out else how_it_ended(recorded)
    return f"{said}; {ended}" if said else ended


def cases(seen: Seen) -> tuple[Case, ...]:
    """One for each hazard, and one where not all was compared; one that passes where there is none and something was recorded."""
    outcomes = {
        Standing.FIRED: CaseOutcome.FAILED,
        Standing.CONFIRMED: CaseOutcome.FAILED,
        Standing.POSSIBLE: CaseOutcome.ERROR,
        Standing.OPEN: CaseOutcome.ERROR,
        Standing.SAFE: CaseOutcome.PASSED,
    }
    found = tuple(
        Case(
            group="import-race",
            name=f"{judged.candidate.worst.kind}: {', '.join(judged.candidate.worst.modules)}",
            outcome=outcomes[judged.standing],
            message=f"{what(judged.candidate.worst)}: {judged.standing}",
            detail=judged.candidate.worst.detail,
        )
        for judged in seen.judged
    )
    if seen.recorded.processes and not seen.is_whole:
        message = "not all of what could meet was compared"
        return (
            *found,
            Case(
                group="import-race", name="all imports", outcome=CaseOutcome.ERROR, message=message
            ),
        )
    if not found and seen.recorded.processes:
        return (
            Case(group="import-race", name="imports across threads", outcome=CaseOutcome.PASSED),
        )
    return found
