# SPDX-License-Identifier: Apache-2.0
"""The facts of an investigation. Pure."""

from typing import Final, Literal

import msgspec

from ci_doctor.imports.analyse.hazard import Hazard
from ci_doctor.imports.baseline import race_id
from ci_doctor.imports.confirm.standing import JudgedHazard, Standing
from ci_doctor.imports.investigation import Investigation
from ci_doctor.imports.record.events import Deadlock, End, ImportEvent, Wait
from ci_doctor.imports.record.recorded import RecordedProcess, RecordedRun
from ci_doctor.imports.report.remedy import remedy
from ci_doctor.model.facts.import_race import (
    AnalysisFacts,
    EscapeFacts,
    HazardFacts,
    ImportRaceFacts,
    JudgedHazardFacts,
    RaceCounts,
    RecordedCommandFacts,
    RecordedProcessFacts,
    RemedyFacts,
)
from ci_doctor.preload.preload_rule import format_rule

_NOT_LOOKED_AT: Final = (
    "`pkg.sub` in one thread, if only another thread imports pkg.sub",
    "reads of `sys.modules`, which may find an incomplete module",
)
_EXPOSURES: Final[dict[bool | None, Literal["exposed", "immune", "unknown"]]] = {
    True: "exposed",
    False: "immune",
    None: "unknown",
}


def facts(investigation: Investigation) -> ImportRaceFacts:
    """What was recorded, as plain values."""
    hazards: list[JudgedHazardFacts] = []
    for judged in investigation.judged:
        # At all places: the findings show the worst one only.
        hazards.extend(
            _judged_facts(judged, hazard, investigation) for hazard in judged.candidate.hazards
        )
    interpreters = {}
    for executable, exposed in investigation.interpreters.items():
        interpreters[executable] = _EXPOSURES[exposed]
    processes = tuple(map(_process_facts, investigation.recorded.processes))
    return ImportRaceFacts(
        hazards=tuple(hazards),
        immune_to=tuple(_hazard_facts(each, investigation) for each in investigation.spared),
        counts=_counts(investigation, processes),
        interpreters=interpreters,
        processes=processes,
        command=_command_facts(investigation.recorded, investigation.isolated),
        analysis=AnalysisFacts(
            is_whole=investigation.is_whole, not_looked_at=not_looked_at(investigation)
        ),
        baseline_unused=investigation.unused_entries,
    )


def _judged_facts(
    judged: JudgedHazard, hazard: Hazard, investigation: Investigation
) -> JudgedHazardFacts:
    hold = None
    confirmation = judged.confirmation
    if confirmation is not None and confirmation.fired_in is not None:
        hold = confirmation.fired_in.hold.text()
    plain = msgspec.structs.asdict(_hazard_facts(hazard, investigation))
    return JudgedHazardFacts(standing=str(judged.standing), hold=hold, id=race_id(hazard), **plain)


def _hazard_facts(hazard: Hazard, investigation: Investigation) -> HazardFacts:
    advice = remedy(hazard, investigation.rules)
    rule = None
    if advice.rule is not None:
        rule = format_rule(advice.rule)
    # By builtins: the room's structs have the same fields, and must not appear in the facts.
    plain = msgspec.to_builtins(hazard)
    plain["remedy"] = RemedyFacts(
        rule=rule,
        move=advice.move,
        text=advice.text,
        rule_standing=None if advice.standing is None else str(advice.standing),
    )
    return msgspec.convert(plain, HazardFacts)


def _counts(
    investigation: Investigation, processes: tuple[RecordedProcessFacts, ...]
) -> RaceCounts:
    threads = loaded = waits = deadlocks = 0
    for process in processes:
        threads += len(process.threads)
        loaded += process.loaded
        waits += process.waits
        deadlocks += process.deadlocks
    return RaceCounts(
        fired=len(investigation.having(Standing.FIRED)),
        confirmed=len(investigation.having(Standing.CONFIRMED)),
        possible=len(investigation.having(Standing.POSSIBLE)),
        open=len(investigation.having(Standing.OPEN)),
        not_confirmed=len(investigation.having(Standing.SAFE)),
        no_harm_seen=len(investigation.having(Standing.HARMLESS)),
        known=len(investigation.having(Standing.KNOWN)),
        processes=len(processes),
        threads=threads,
        loaded=loaded,
        waits=waits,
        deadlocks=deadlocks,
    )


def _process_facts(process: RecordedProcess) -> RecordedProcessFacts:
    escapes = [EscapeFacts(argv=escape.argv, why=escape.why) for escape in process.escapes]
    names = [thread.name for thread in process.threads.values()]
    return RecordedProcessFacts(
        pid=process.pid,
        parent_pid=process.parent_pid,
        executable=process.executable,
        version=process.version,
        argv=process.argv,
        forked=process.forked,
        threads=tuple(names),
        loaded=count_loaded(process),
        waits=_count(process, Wait),
        deadlocks=_count(process, Deadlock),
        escapes=tuple(escapes),
        ended_by_itself=process.exited_ns is not None,
        truncated=process.truncated,
    )


def _command_facts(run: RecordedRun, isolated: str | None) -> RecordedCommandFacts:
    return RecordedCommandFacts(
        exit_code=run.exit_code,
        signal=run.signal,
        duration_s=round(run.duration_s, 3),
        timed_out=run.timed_out,
        outlived=run.outlived,
        isolated=isolated,
    )


def not_looked_at(investigation: Investigation) -> tuple[str, ...]:
    """Races of imports that no recording shows; none if no process has a second thread."""
    for process in investigation.recorded.processes:
        if len(process.threads) > 1:
            return _NOT_LOOKED_AT
    return ()


def count_loaded(process: RecordedProcess) -> int:
    """How many modules its threads executed to the end."""
    count = 0
    for event in process.events:
        if isinstance(event, End) and event.status == "loaded":
            count += 1
    return count


def _count(process: RecordedProcess, kind: type[ImportEvent]) -> int:
    count = 0
    for event in process.events:
        if isinstance(event, kind):
            count += 1
    return count
