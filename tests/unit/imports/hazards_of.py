# SPDX-License-Identifier: Apache-2.0
"""Hazards, processes, runs and investigations as values, for the tests of what is made of them."""

from pathlib import Path
from typing import Any

from ci_doctor.imports.confirm import HeldRun, Investigation, races
from ci_doctor.imports.crossings import HazardKind, Hold
from ci_doctor.imports.one_module import REPLACED
from ci_doctor.imports.trace import End, HeldImport, ImportEvent, RecordedProcess, RecordedRun
from ci_doctor.model.facts.import_race import Closeness, Hazard, Import, Site


def an_import(thread: str, name: str, line: int) -> Import:
    site = Site(file="app.py", line=line, module="__main__")
    return Import(thread=thread, name=name, site=site, chain=(site,), began_ns=0, ended_ns=1)


def a_hazard(kind: HazardKind = REPLACED, *modules: str, **fields: Any) -> Hazard:
    names = modules or ("lazy",)
    known = {
        "closeness": Closeness.LATENT,
        "pid": 1,
        "first": an_import("worker", names[0], 3),
        "second": an_import("MainThread", names[-1], 9),
        "margin_ns": 50_000_000,
        "pair": (names[0], names[-1]) if len(names) > 1 else None,
        "detail": "50 ms apart",
    }
    return Hazard(kind=kind.name, modules=names, **{**known, **fields})


def a_process(*events: ImportEvent, **fields: Any) -> RecordedProcess:
    known = {
        "pid": 1,
        "parent_pid": 0,
        "executable": "/usr/bin/python3",
        "argv": ("python3", "app.py"),
        "version": "3.11.7",
        "forked": False,
        "threading": False,
        "started_ns": 0,
        "threads": {},
    }
    return RecordedProcess(events=events, **{**known, **fields})


LOADED = End(t=2, n=0, k=2, name="json", status="loaded", replaced=False)


def a_run(*processes: RecordedProcess, **fields: Any) -> RecordedRun:
    known = {"exit_code": 0, "signal": None, "duration_s": 1.0}
    return RecordedRun(processes=processes, **{**known, **fields})


def a_held_run(
    *processes: RecordedProcess, number: int = 1, limit_s: float = 2.0, **fields: Any
) -> HeldRun:
    return HeldRun(
        number=number,
        hold=Hold(mode="exec", x="lazy", limit_s=limit_s),
        recorded=a_run(*processes, **fields),
        output=Path("held.stdout"),
        error=Path("held.stderr"),
    )


def an_investigation(
    *hazards: Hazard, confirmed: tuple[Any, ...] | None = None, **fields: Any
) -> Investigation:
    """`confirmed`: for each race the runs that were made, and the one in which it fired."""
    judged = races(hazards)
    for race, (runs, fired_in) in zip(judged, confirmed or (), strict=False):
        race.runs, race.fired_in = runs, fired_in
    for race in judged:
        race.judge(confirming=confirmed is not None, command_failed=False)
    known = {"recorded": a_run(a_process(LOADED)), "confirming": confirmed is not None}
    return Investigation(races=judged, **{**known, **fields})


NOT_MET = a_process(HeldImport(t=1, n=0, k=1, name="lazy", limit_ns=2, met=False))
MET = a_process(HeldImport(t=1, n=0, k=1, name="lazy", limit_ns=2, met=True))
FIRED = a_hazard(closeness=Closeness.FIRED)
RUN = a_held_run(NOT_MET)
