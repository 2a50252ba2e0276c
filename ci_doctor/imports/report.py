# SPDX-License-Identifier: Apache-2.0
"""Pure. From an investigation to its verdict, facts, tables, cases and attempts."""

import shlex
import signal as signals
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from ci_doctor.imports.confirm import HeldRun, Investigation
from ci_doctor.imports.findings import findings, not_judged, shown, what
from ci_doctor.imports.remedy import remedy
from ci_doctor.imports.trace import Deadlock, RecordedProcess, RecordedRun, Wait
from ci_doctor.model.facts.import_race import (
    AdvisedHazard,
    AnalysisFacts,
    ImportRaceFacts,
    RaceCounts,
    RecordedCommandFacts,
    RecordedProcessFacts,
    ReportedHazard,
    RuleStanding,
    Standing,
)
from ci_doctor.model.outcome import Attempt, Case, CaseOutcome, Failure, Outcome, signal_kind
from ci_doctor.model.shortened import shortened
from ci_doctor.model.table import Table, row
from ci_doctor.model.verdict import Verdict
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
    counts = {standing: len(investigation.having(standing)) for standing in Standing}
    parts = []
    if counts[Standing.FIRED]:
        ending = ""
        if investigation.recorded.command_failed:
            ending = f", which then ended with {investigation.recorded.describe_end()}"
        parts.append(f"{counts[Standing.FIRED]} fired in the recorded run{ending}")
    if counts[Standing.CONFIRMED]:
        parts.append(f"{counts[Standing.CONFIRMED]} fired once the right import was delayed")
    if counts[Standing.HARMLESS]:
        parts.append(f"{counts[Standing.HARMLESS]} did no harm that was seen")
    others = len(investigation.judged) - counts[Standing.FIRED] - counts[Standing.CONFIRMED]
    # Without --confirm there is no SAFE one, but others that it could settle.
    if investigation.confirming and counts[Standing.SAFE]:
        parts.append(f"{counts[Standing.SAFE]} could not be made to fire")
    elif others and not investigation.confirming:
        parts.append("`--confirm` settles the others")
    races = amount(len(investigation.judged), "import race")
    return f"{races} can happen here; {'; '.join(parts)}"


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
    unjudged = [process for process in run.processes if process.unjudged]
    if unjudged:
        why = not_judged(unjudged[0].unjudged[0])
        return f"process {unjudged[0].pid} cannot be judged: {why}"
    unarmed = [process for process in run.processes if not process.armed]
    if unarmed:
        return (
            f"process {unarmed[0].pid} (Python {unarmed[0].version}) was not recorded: "
            "its import system is not one that is known"
        )
    if run.unreadable:
        traces = amount(len(run.unreadable), "trace")
        return f"{traces} cannot be read, so that what is known is not whole"
    return None


def _undecided(investigation: Investigation) -> str | None:
    """Why the evidence is not enough, if it is not."""
    possible = len(investigation.having(Standing.POSSIBLE))
    unsettled = len(investigation.having(Standing.OPEN))
    if possible:
        races = amount(possible, "import race")
        return f"{races} can happen here, none did in this run; `--confirm` settles it"
    if unsettled:
        return (
            f"{amount(unsettled, 'import race')} can happen here as far as it is known, "
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
            f"{amount(harmless, 'import race')} can happen here, and did no harm in "
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
    confirmations = [judged.confirmation for judged in investigation.judged if judged.confirmation]
    numbers = {run.number for confirmation in confirmations for run in confirmation.runs}
    return f"{amount(len(numbers), 'run')} with a delay"


_EXPOSURES: Final[dict[bool | None, Literal["exposed", "immune", "unknown"]]] = {
    True: "exposed",
    False: "immune",
    None: "unknown",
}
_NOT_LOOKED_AT: Final = (
    "`pkg.sub` in one thread, if only another thread imports pkg.sub",
    "reads of `sys.modules`, which may find an incomplete module",
)


def facts(investigation: Investigation) -> ImportRaceFacts:
    """What was recorded, as plain values. The hazards at all places: the findings show the worst one only."""
    run = investigation.recorded
    processes = tuple(map(_process_facts, run.processes))
    return ImportRaceFacts(
        hazards=tuple(
            ReportedHazard(
                **msgspec.structs.asdict(hazard),
                remedy=remedy(hazard, investigation.rules),
                standing=judged.standing,
                hold=None if judged.hold is None else judged.hold.text(),
            )
            for judged in investigation.judged
            for hazard in judged.candidate.hazards
        ),
        immune_to=tuple(
            AdvisedHazard(
                **msgspec.structs.asdict(hazard), remedy=remedy(hazard, investigation.rules)
            )
            for hazard in investigation.spared
        ),
        counts=RaceCounts(
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
        ),
        interpreters={
            executable: _EXPOSURES[exposed]
            for executable, exposed in investigation.interpreters.items()
        },
        processes=processes,
        command=RecordedCommandFacts(
            exit_code=run.exit_code,
            signal=run.signal,
            duration_s=round(run.duration_s, 3),
            timed_out=run.timed_out,
            outlived=run.outlived,
            isolated=investigation.isolated,
        ),
        analysis=AnalysisFacts(
            is_whole=investigation.is_whole, not_looked_at=not_looked_at(investigation)
        ),
    )


def _process_facts(process: RecordedProcess) -> RecordedProcessFacts:
    return RecordedProcessFacts(
        pid=process.pid,
        parent_pid=process.parent_pid,
        executable=process.executable,
        version=process.version,
        argv=process.argv,
        forked=process.forked,
        threads=tuple(thread.name for thread in process.threads.values()),
        loaded=process.count_loaded(),
        waits=sum(isinstance(each, Wait) for each in process.events),
        deadlocks=sum(isinstance(each, Deadlock) for each in process.events),
        escapes=process.escapes,
        ended_by_itself=process.exited_ns is not None,
        truncated=process.truncated,
    )


def not_looked_at(investigation: Investigation) -> tuple[str, ...]:
    """Races of imports that no recording shows; none if no process has a second thread."""
    has_threads = any(len(each.threads) > 1 for each in investigation.recorded.processes)
    return _NOT_LOOKED_AT if has_threads else ()


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
    recorded = []
    for process in processes[:_PROCESSES_SHOWN]:
        command = shlex.join(process.argv) or shown(process.executable)
        # The command comes last: only the last column is broken between words.
        recorded.append(
            row(
                str(process.pid),
                process.version,
                process.count_loaded(),
                len(process.threads),
                shortened(command, _COMMAND_SHOWN),
            )
        )
    hidden = len(processes) - len(recorded)
    if hidden:
        recorded.append(row(f"… and {hidden} more"))
    interpreters = [
        row(shown(executable), _EXPOSURE_WORDS[exposed])
        for executable, exposed in investigation.interpreters.items()
    ]
    unseen = [row(what) for what in not_looked_at(investigation)]
    made = (
        Table(title="Recorded", columns=_PROCESS_COLUMNS, rows=tuple(recorded)),
        Table(title="Race of self-replacing modules", rows=tuple(interpreters)),
        Table(title="Not looked at", rows=tuple(unseen)),
    )
    return tuple(table for table in made if table.rows)


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
    made = [
        Attempt(
            name="recorded",
            outcome=_outcome(recorded, "a race fired" if fired else None),
            ok=not fired and not recorded.command_failed,
            duration_s=round(recorded.duration_s, 3),
        )
    ]
    confirmations = [judged.confirmation for judged in investigation.judged if judged.confirmation]
    for run in investigation.runs:
        # By identity: a run for one hazard may make another one fire too.
        raced = [what(each.candidate.worst) for each in confirmations if each.fired_in is run]
        is_handed_out = any(run in each.handed_out_in for each in confirmations)
        standing = None if run.rule is None else investigation.rules[run.rule]
        result = f"fired: {', '.join(raced)}"
        if standing is not None:
            result = f"with the rule {run.rule}, which {_RULES[standing]}"
        elif not raced and is_handed_out:
            result = "a wrong module was handed out, nothing that was read was missing"
        elif not raced:
            result = _without_a_race(run)
        made.append(
            Attempt(
                name=f"held {run.number}",
                outcome=f"{_outcome(run.recorded, result)} ({run.hold.text()})",
                ok=not raced and standing is not RuleStanding.LOST,
                duration_s=round(run.recorded.duration_s, 3),
                log=logs.get(run.number),
                facts={
                    "hold": run.hold.text(),
                    "held": run.was_held,
                    "met": run.met,
                    "handed_out": is_handed_out,
                    "fired": bool(raced),
                    "exit_code": run.recorded.exit_code,
                    "signal": run.recorded.signal,
                    "same_end_as_recorded": run.ended_as_recorded,
                    "rule": run.rule,
                },
            )
        )
    return tuple(made)


def _without_a_race(run: HeldRun) -> str:
    if run.met:
        return "met, nothing happened"
    return "no second thread requested the module" if run.was_held else "not held"


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
    made = [
        Case(
            group="import-race",
            name=f"{judged.candidate.worst.kind}: {', '.join(judged.candidate.worst.modules)}",
            outcome=_OUTCOMES[judged.standing],
            message=f"{what(judged.candidate.worst)}: {judged.standing}",
            detail=judged.candidate.worst.detail,
        )
        for judged in investigation.judged
    ]
    if not investigation.recorded.processes:
        return tuple(made)
    # A case that passes must not stand for imports that were not compared.
    if not investigation.is_whole:
        message = "not all of what could meet was compared"
        cut = CaseOutcome.ERROR
        made.append(Case(group="import-race", name="all imports", outcome=cut, message=message))
    elif not made:
        passed = CaseOutcome.PASSED
        made.append(Case(group="import-race", name="imports across threads", outcome=passed))
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
