# SPDX-License-Identifier: Apache-2.0
"""Pure. From an investigation to its verdict, facts, tables, cases and attempts."""

import shlex
import signal as signals
from collections.abc import Iterator
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from ci_doctor.imports.confirm import HeldRun, Investigation, JudgedHazard
from ci_doctor.imports.findings import findings, not_judged, shown, what
from ci_doctor.imports.remedy import remedy
from ci_doctor.imports.trace import Deadlock, End, ImportEvent, RecordedProcess, RecordedRun, Wait
from ci_doctor.model.facts.import_race import (
    AdvisedHazard,
    AnalysisFacts,
    Hazard,
    ImportRaceFacts,
    RaceCounts,
    RecordedCommandFacts,
    RecordedProcessFacts,
    ReportedHazard,
    RuleStanding,
    Standing,
)
from ci_doctor.model.outcome import Attempt, Case, CaseOutcome, Failure, Outcome, signal_kind
from ci_doctor.model.table import Row, Table, row
from ci_doctor.model.verdict import Verdict
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import amount


def conclude(investigation: Investigation) -> tuple[Verdict, str]:
    """The verdict, and the reason in a sentence. What happened counts, whatever else is missing; what is missing never passes."""
    if investigation.having(Standing.FIRED, Standing.CONFIRMED):
        # Not a regression: nothing was compared with a run before the change.
        return Verdict.FAILED, _happened(investigation)
    gap = nothing_known(investigation)
    if gap is not None:
        return Verdict.VOID, gap
    doubt = _undecided(investigation)
    if doubt is not None:
        return Verdict.INCONCLUSIVE, doubt
    return Verdict.PASS, _safe(investigation)


def _happened(investigation: Investigation) -> str:
    fired = len(investigation.having(Standing.FIRED))
    confirmed = len(investigation.having(Standing.CONFIRMED))
    harmless = len(investigation.having(Standing.HARMLESS))
    safe = len(investigation.having(Standing.SAFE))
    others = len(investigation.judged) - fired - confirmed
    parts = []
    if fired:
        ending = ""
        if investigation.recorded.command_failed:
            ending = f", which then ended with {investigation.recorded.describe_end()}"
        parts.append(f"{fired} fired in the recorded run{ending}")
    if confirmed:
        parts.append(f"{confirmed} fired once the right import was delayed")
    if harmless:
        parts.append(f"{harmless} did no harm that was seen")
    # Without --confirm there is no SAFE one, but others that it could settle.
    if investigation.confirming and safe:
        parts.append(f"{safe} could not be made to fire")
    elif others and not investigation.confirming:
        parts.append("`--confirm` settles the others")
    return f"{_races(len(investigation.judged))} can happen here; {'; '.join(parts)}"


def nothing_known(investigation: Investigation) -> str | None:
    """Why the recording is no evidence, if it is none."""
    run = investigation.recorded
    if investigation.isolated is not None:
        return (
            "the command's own Python is not followed, so nothing is known: "
            f"{investigation.isolated}"
        )
    if not run.processes:
        return "nothing was recorded: no Python that reads PYTHONPATH and runs `site` was started"
    if unjudged := _unjudged(run):
        return unjudged
    for process in run.processes:
        if not process.armed:
            return (
                f"process {process.pid} (Python {process.version}) was not recorded: "
                "its import system is not one that is known"
            )
    if run.unreadable:
        traces = amount(len(run.unreadable), "trace")
        return f"{traces} cannot be read, so that what is known is not whole"
    return None


def _unjudged(run: RecordedRun) -> str | None:
    for process in run.processes:
        for why in process.unjudged:
            return f"process {process.pid} cannot be judged: {not_judged(why)}"
    return None


def _undecided(investigation: Investigation) -> str | None:
    """Why the evidence is not enough, if it is not."""
    possible = len(investigation.having(Standing.POSSIBLE))
    unsettled = len(investigation.having(Standing.OPEN))
    if possible:
        races = _races(possible)
        return f"{races} can happen here, none did in this run; `--confirm` settles it"
    if unsettled:
        return (
            f"{_races(unsettled)} can happen here as far as it is known, "
            f"and {_runs(investigation)} could not decide it"
        )
    if not investigation.is_whole:
        return (
            f"{_safe(investigation)}, as far as it was compared: "
            "its threads import more than can be compared in full"
        )
    if investigation.recorded.command_failed:
        ending = investigation.recorded.describe_end()
        return f"no import race was recorded, but the command ended with {ending}"
    return None


def _safe(investigation: Investigation) -> str:
    harmless = len(investigation.having(Standing.HARMLESS))
    if harmless:
        return (
            f"{_races(harmless)} can happen here, and did no harm in "
            f"{_runs(investigation)}: no name was missing"
        )
    safe = len(investigation.having(Standing.SAFE))
    if safe:
        what = "it" if safe == 1 else "one"
        runs = _runs(investigation)
        return f"no import race: {safe} seemed possible, and {runs} did not make {what} fire"
    processes = len(investigation.recorded.processes)
    where = "1 process" if processes == 1 else f"{processes} processes"
    spared = len(investigation.spared)
    if spared:
        return (
            f"no import race in {where}: "
            f"the interpreter is immune to the {spared} that others would have"
        )
    return f"no import race in {where}"


def _runs(investigation: Investigation) -> str:
    # By number: one run may count for several hazards.
    numbers: set[int] = set()
    for judged in investigation.judged:
        if judged.confirmation is not None:
            for run in judged.confirmation.runs:
                numbers.add(run.number)
    return f"{amount(len(numbers), 'run')} with a delay"


def _races(count: int) -> str:
    return amount(count, "import race")


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
    hazards: list[ReportedHazard] = []
    for judged in investigation.judged:
        # At all places: the findings show the worst one only.
        hazards.extend(
            _reported(judged, hazard, investigation) for hazard in judged.candidate.hazards
        )
    processes = tuple(map(_process_facts, investigation.recorded.processes))
    return ImportRaceFacts(
        hazards=tuple(hazards),
        immune_to=tuple(_advised(each, investigation) for each in investigation.spared),
        counts=_counts(investigation, processes),
        interpreters={
            executable: _EXPOSURES[exposed]
            for executable, exposed in investigation.interpreters.items()
        },
        processes=processes,
        command=_command_facts(investigation.recorded, investigation.isolated),
        analysis=AnalysisFacts(
            is_whole=investigation.is_whole, not_looked_at=not_looked_at(investigation)
        ),
    )


def _reported(judged: JudgedHazard, hazard: Hazard, investigation: Investigation) -> ReportedHazard:
    hold = None
    confirmation = judged.confirmation
    if confirmation is not None and confirmation.fired_in is not None:
        hold = confirmation.fired_in.hold.text()
    advice = remedy(hazard, investigation.rules)
    fields = msgspec.structs.asdict(hazard)
    return ReportedHazard(**fields, remedy=advice, standing=judged.standing, hold=hold)


def _advised(hazard: Hazard, investigation: Investigation) -> AdvisedHazard:
    advice = remedy(hazard, investigation.rules)
    return AdvisedHazard(**msgspec.structs.asdict(hazard), remedy=advice)


def _counts(
    investigation: Investigation, processes: tuple[RecordedProcessFacts, ...]
) -> RaceCounts:
    return RaceCounts(
        fired=len(investigation.having(Standing.FIRED)),
        confirmed=len(investigation.having(Standing.CONFIRMED)),
        possible=len(investigation.having(Standing.POSSIBLE)),
        open=len(investigation.having(Standing.OPEN)),
        not_confirmed=len(investigation.having(Standing.SAFE)),
        no_harm_seen=len(investigation.having(Standing.HARMLESS)),
        processes=len(processes),
        threads=sum(len(process.threads) for process in processes),
        loaded=sum(process.loaded for process in processes),
        waits=sum(process.waits for process in processes),
        deadlocks=sum(process.deadlocks for process in processes),
    )


def _process_facts(process: RecordedProcess) -> RecordedProcessFacts:
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
        escapes=process.escapes,
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
    return sum(isinstance(each, End) and each.status == "loaded" for each in process.events)


def _count(process: RecordedProcess, kind: type[ImportEvent]) -> int:
    return sum(isinstance(each, kind) for each in process.events)


# A test suite with workers has dozens, and most of them look alike.
_PROCESSES_SHOWN = 6
_COMMAND_SHOWN = 60
_PROCESS_COLUMNS = ("Python", "modules", "threads", "command")
_EXPOSURE_WORDS = {True: "exposed", False: "immune", None: "unknown: the check failed"}
_OUTCOMES = {
    Standing.FIRED: CaseOutcome.FAILED,
    Standing.CONFIRMED: CaseOutcome.FAILED,
    Standing.POSSIBLE: CaseOutcome.ERROR,
    Standing.OPEN: CaseOutcome.ERROR,
    Standing.HARMLESS: CaseOutcome.PASSED,
    Standing.SAFE: CaseOutcome.PASSED,
}


def tables(investigation: Investigation) -> tuple[Table, ...]:
    """Which processes were recorded, and whether their interpreters are exposed."""
    processes = investigation.recorded.processes
    recorded = [_process_row(process) for process in processes[:_PROCESSES_SHOWN]]
    hidden = len(processes) - len(recorded)
    if hidden:
        recorded.append(row(f"… and {hidden} more"))
    interpreters = []
    for executable, exposed in investigation.interpreters.items():
        interpreters.append(row(shown(executable), _EXPOSURE_WORDS[exposed]))
    made = []
    if recorded:
        made.append(Table(title="Recorded", columns=_PROCESS_COLUMNS, rows=tuple(recorded)))
    if interpreters:
        made.append(Table(title="Race of self-replacing modules", rows=tuple(interpreters)))
    if not_looked_at(investigation):
        rows = [row(what) for what in not_looked_at(investigation)]
        made.append(Table(title="Not looked at", rows=tuple(rows)))
    return tuple(made)


def _process_row(process: RecordedProcess) -> Row:
    command = shlex.join(process.argv) or shown(process.executable)
    command = shortened(command, _COMMAND_SHOWN)
    loaded = count_loaded(process)
    threads = len(process.threads)
    # The command comes last: only the last column is broken between words.
    return row(str(process.pid), process.version, loaded, threads, command)


_RULES: Final = {
    RuleStanding.WON: "won",
    RuleStanding.LOST: "lost",
    RuleStanding.UNTRIED: "was not decided",
    RuleStanding.IMPOSSIBLE: "cannot fire",
}


def attempts(investigation: Investigation, logs: dict[int, str]) -> tuple[Attempt, ...]:
    """The recorded run, and each run with a delay; `logs` has the file of each one's output."""
    recorded = investigation.recorded
    fired = bool(investigation.having(Standing.FIRED))
    result = None
    if fired:
        result = "a race fired"
    first = Attempt(
        name="recorded",
        outcome=_outcome(recorded, result),
        ok=not fired and not recorded.command_failed,
        duration_s=round(recorded.duration_s, 3),
    )
    all_attempts = [first]
    for run in investigation.runs:
        log = logs.get(run.number)
        all_attempts.append(_attempt(run, investigation, log))
    return tuple(all_attempts)


def _attempt(run: HeldRun, investigation: Investigation, log: str | None) -> Attempt:
    fired = list(_fired_in(run, investigation))
    is_handed_out = _was_handed_out(run, investigation)
    result = _result(run, fired, is_handed_out=is_handed_out)
    lost = False
    if run.rule is not None:
        standing = investigation.rules[run.rule]
        lost = standing is RuleStanding.LOST
        result = f"with the rule {run.rule}, which {_RULES[standing]}"
    outcome = _outcome(run.recorded, result)
    return Attempt(
        name=f"held {run.number}",
        outcome=f"{outcome} ({run.hold.text()})",
        ok=not fired and not lost,
        duration_s=round(run.recorded.duration_s, 3),
        log=log,
        facts={
            "hold": run.hold.text(),
            "held": run.was_held,
            "met": run.met,
            "handed_out": is_handed_out,
            "fired": bool(fired),
            "exit_code": run.recorded.exit_code,
            "signal": run.recorded.signal,
            "same_end_as_recorded": run.ended_as_recorded,
            "rule": run.rule,
        },
    )


def _fired_in(run: HeldRun, investigation: Investigation) -> Iterator[str]:
    for judged in investigation.judged:
        if judged.confirmation is None:
            continue
        # By identity: a run for one hazard may make another one fire too.
        if judged.confirmation.fired_in is run:
            yield what(judged.candidate.worst)


def _was_handed_out(run: HeldRun, investigation: Investigation) -> bool:
    for judged in investigation.judged:
        confirmation = judged.confirmation
        if confirmation is not None and run in confirmation.handed_out_in:
            return True
    return False


def _result(run: HeldRun, fired: list[str], *, is_handed_out: bool) -> str:
    if fired:
        return f"fired: {', '.join(fired)}"
    if is_handed_out:
        return "a wrong module was handed out, nothing that was read was missing"
    if run.met:
        return "met, nothing happened"
    if not run.was_held:
        return "not held"
    return "no second thread requested the module"


def _outcome(recorded: RecordedRun, result: str | None) -> str:
    ending = recorded.describe_end()
    if recorded.timed_out:
        ending = "stopped when the time was up"
    if not result:
        return ending
    return f"{result}; {ending}"


def cases(investigation: Investigation) -> tuple[Case, ...]:
    """One for each hazard, and one more if not all was compared.

    Without a hazard, one that passes if something was recorded.
    """
    made = []
    for judged in investigation.judged:
        hazard = judged.candidate.worst
        case = Case(
            group="import-race",
            name=f"{hazard.kind}: {', '.join(hazard.modules)}",
            outcome=_OUTCOMES[judged.standing],
            message=f"{what(hazard)}: {judged.standing}",
            detail=hazard.detail,
        )
        made.append(case)
    if not investigation.recorded.processes:
        return tuple(made)
    # A case that passes must not stand for imports that were not compared.
    if not investigation.is_whole:
        message = "not all of what could meet was compared"
        made.append(
            Case(
                group="import-race", name="all imports", outcome=CaseOutcome.ERROR, message=message
            )
        )
    elif not made:
        made.append(
            Case(group="import-race", name="imports across threads", outcome=CaseOutcome.PASSED)
        )
    return tuple(made)


def race_outcome(
    investigation: Investigation, excerpts: dict[int, str], logs: dict[int, str]
) -> Outcome:
    """What the investigation means.

    By the number of a run with a delay: `excerpts` has the last lines that it wrote to stderr,
    `logs` the file of its stderr in the report directory.
    """
    verdict, summary = conclude(investigation)
    return Outcome(
        verdict=verdict,
        summary=summary,
        findings=tuple(findings(investigation, excerpts)),
        tables=tables(investigation),
        facts=facts(investigation),
        cases=cases(investigation),
        attempts=attempts(investigation, logs),
    )


def interrupted(outcome: Outcome, received: signals.Signals) -> Outcome:
    """`outcome` after a signal to ci-doctor: what was recorded so far, and no verdict."""
    message = f"interrupted by {received.name}; every process was stopped"
    error = Failure(message=message, kind=signal_kind(received.name))
    return replace(outcome, verdict=None, summary=message, error=error)
