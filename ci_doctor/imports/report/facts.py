# SPDX-License-Identifier: Apache-2.0
"""The facts of an investigation, as JSON values. Pure."""

from typing import Any

import msgspec

from ci_doctor.imports.analyse.hazard import Hazard
from ci_doctor.imports.confirm.standing import JudgedHazard, count_standings
from ci_doctor.imports.investigation import Investigation
from ci_doctor.imports.record.events import Deadlock, End, Wait
from ci_doctor.imports.record.recorded import RecordedProcess
from ci_doctor.imports.report.remedy import remedy
from ci_doctor.preload.rules import format_rule

_EXPOSURES = {True: "exposed", False: "immune", None: "unknown"}


def facts(investigation: Investigation) -> dict[str, Any]:
    """What was recorded, as JSON values."""
    run = investigation.recorded
    hazards: list[dict[str, Any]] = []
    for judged in investigation.judged:
        hazards += [_judged_facts(judged, hazard) for hazard in judged.candidate.hazards]
    interpreters = {}
    for executable, exposed in investigation.interpreters.items():
        interpreters[executable] = _EXPOSURES[exposed]
    return {
        "hazards": hazards,
        "immune_to": list(map(_hazard_facts, investigation.spared)),
        "counts": _counts(investigation),
        "interpreters": interpreters,
        "processes": list(map(_process_facts, run.processes)),
        "command": {
            "exit_code": run.exit_code,
            "signal": run.signal,
            "duration_s": round(run.duration_s, 3),
            "timed_out": run.timed_out,
            "outlived": list(run.outlived),
            "isolated": investigation.isolated,
        },
        "analysis": {"is_whole": investigation.is_whole},
    }


def _counts(investigation: Investigation) -> dict[str, int]:
    processes = investigation.recorded.processes
    counts = count_standings(investigation.judged)
    counts |= {"processes": len(processes), "threads": 0, "loaded": 0, "waits": 0, "deadlocks": 0}
    for process in processes:
        counts["threads"] += len(process.threads)
        counts["loaded"] += count_loaded(process)
        counts["waits"] += _count(process, Wait)
        counts["deadlocks"] += _count(process, Deadlock)
    return counts


def _judged_facts(judged: JudgedHazard, hazard: Hazard) -> dict[str, Any]:
    hold = None
    if judged.confirmation is not None and judged.confirmation.fired_in is not None:
        hold = judged.confirmation.fired_in.hold.text()
    return {**_hazard_facts(hazard), "standing": str(judged.standing), "hold": hold}


def _hazard_facts(hazard: Hazard) -> dict[str, Any]:
    advice = remedy(hazard)
    rule = format_rule(advice.rule) if advice.rule is not None else None
    plain: dict[str, Any] = msgspec.to_builtins(hazard)
    plain["remedy"] = {"rule": rule, "move": advice.move, "text": advice.text}
    return plain


def _process_facts(process: RecordedProcess) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "parent_pid": process.parent_pid,
        "executable": process.executable,
        "version": process.version,
        "argv": list(process.argv),
        "forked": process.forked,
        "threads": [thread.name for thread in process.threads.values()],
        "loaded": count_loaded(process),
        "waits": _count(process, Wait),
        "deadlocks": _count(process, Deadlock),
        "escapes": [{"argv": list(escape.argv), "why": escape.why} for escape in process.escapes],
        "ended_by_itself": process.exited_ns is not None,
        "truncated": process.truncated,
    }


def count_loaded(process: RecordedProcess) -> int:
    """How many modules its threads executed to the end."""
    count = 0
    for event in process.events:
        if isinstance(event, End) and event.status == "loaded":
            count += 1
    return count


def _count(process: RecordedProcess, kind: type) -> int:
    return sum(isinstance(event, kind) for event in process.events)
