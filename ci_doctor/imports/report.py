# SPDX-License-Identifier: Apache-2.0
"""Pure. From an investigation to its verdict, findings, facts, tables, cases and attempts."""

import os
import shlex
import signal as signals
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from ci_doctor.imports import hazards as rules
from ci_doctor.imports.confirm import HeldRun, Investigation, Race
from ci_doctor.imports.hazards import harms, kind_of, remedy
from ci_doctor.imports.trace import Deadlock, Missing, RecordedProcess, RecordedRun, Reload, Wait
from ci_doctor.model.facts.import_race import (
    AnalysisFacts,
    Hazard,
    Import,
    ImportRaceFacts,
    RaceCounts,
    RecordedCommandFacts,
    RecordedProcessFacts,
    ReportedHazard,
    RuleStanding,
    Site,
    Standing,
)
from ci_doctor.model.outcome import (
    Attempt,
    Case,
    CaseOutcome,
    Evidence,
    Failure,
    Finding,
    Outcome,
    Severity,
    Table,
    Verdict,
    row,
    signal_kind,
)
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import amount


def conclude(investigation: Investigation) -> tuple[Verdict, str]:
    """The verdict, and the reason in a sentence. What happened counts, whatever else is missing; what is missing never passes."""
    if investigation.count(Standing.FIRED) or investigation.count(Standing.CONFIRMED):
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
    counts = {standing: investigation.count(standing) for standing in Standing}
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
    others = len(investigation.races) - counts[Standing.FIRED] - counts[Standing.CONFIRMED]
    # Without --confirm there is no SAFE one, but others that it could settle.
    if investigation.confirming and counts[Standing.SAFE]:
        parts.append(f"{counts[Standing.SAFE]} could not be made to fire")
    elif others and not investigation.confirming:
        parts.append("`--confirm` settles the others")
    races = amount(len(investigation.races), "import race")
    return f"{races} can happen here; {'; '.join(parts)}"


# What Python imports before a command has begun (Debian's has a sitecustomize of its own).
_OF_EACH_START: Final = ("sitecustomize", "usercustomize")


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
    loaded = any(
        each.count_loaded() > sum(map(each.count_loaded, _OF_EACH_START)) for each in run.processes
    )
    nothing = f"no module was recorded in {_processes(run.processes)}, so nothing could race"
    return None if loaded or investigation.races or run.command_failed else nothing


def _undecided(investigation: Investigation) -> str | None:
    """Why the evidence is not enough, if it is not."""
    possible = investigation.count(Standing.POSSIBLE)
    unsettled = investigation.count(Standing.OPEN)
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
    harmless = investigation.count(Standing.HARMLESS)
    if harmless:
        return (
            f"{amount(harmless, 'import race')} can happen here, and did no harm in "
            f"{_runs(investigation)}: no name was missing"
        )
    safe = investigation.count(Standing.SAFE)
    if safe:
        what = "it" if safe == 1 else "one"
        runs = _runs(investigation)
        return f"no import race: {safe} seemed possible, and {runs} did not make {what} fire"
    processes = investigation.recorded.processes
    loaded = amount(sum(process.count_loaded() for process in processes), "module")
    threads = amount(sum(len(process.threads) for process in processes), "thread")
    return f"no import race in {_processes(processes)} ({loaded}, {threads})"


def _processes(processes: Sequence[RecordedProcess]) -> str:
    return "1 process" if len(processes) == 1 else f"{len(processes)} processes"


def _runs(investigation: Investigation) -> str:
    # By number: one run may count for several hazards.
    numbers = {run.number for race in investigation.races for run in race.runs}
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
_RELOADED: Final = "a reloaded module in threads that do not import it"


def facts(investigation: Investigation) -> ImportRaceFacts:
    """What was recorded, as plain values. The hazards at all places: the findings show the worst one only."""
    run = investigation.recorded
    processes = tuple(map(_process_facts, run.processes))
    return ImportRaceFacts(
        hazards=tuple(
            ReportedHazard(
                **msgspec.structs.asdict(hazard),
                remedy=remedy(hazard, investigation.rules),
                standing=race.standing,
                hold=None if race.hold is None else race.hold.text(),
            )
            for race in investigation.races
            for hazard in race.hazards
        ),
        counts=RaceCounts(
            fired=investigation.count(Standing.FIRED),
            confirmed=investigation.count(Standing.CONFIRMED),
            possible=investigation.count(Standing.POSSIBLE),
            open=investigation.count(Standing.OPEN),
            not_confirmed=investigation.count(Standing.SAFE),
            no_harm_seen=investigation.count(Standing.HARMLESS),
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
        truncated=process.truncated,
    )


def not_looked_at(investigation: Investigation) -> tuple[str, ...]:
    """Races of imports that no recording shows; none if no process has a second thread."""
    threaded = [each for each in investigation.recorded.processes if len(each.threads) > 1]
    if any(isinstance(event, Reload) for each in threaded for event in each.events):
        return (*_NOT_LOOKED_AT, _RELOADED)
    return _NOT_LOOKED_AT if threaded else ()


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
    fired = investigation.count(Standing.FIRED) > 0
    made = [
        Attempt(
            name="recorded",
            outcome=_outcome(recorded, "a race fired" if fired else None),
            ok=not fired and not recorded.command_failed,
            duration_s=round(recorded.duration_s, 3),
        )
    ]
    for run in investigation.runs:
        # By identity: a run for one hazard may make another one fire too.
        raced = [what(race.worst) for race in investigation.races if race.fired_in is run]
        is_handed_out = any(run in race.handed_out_in for race in investigation.races)
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
            name=f"{race.worst.kind}: {', '.join(race.worst.modules)}",
            outcome=_OUTCOMES[race.standing],
            message=f"{what(race.worst)}: {race.standing}",
            detail=race.worst.detail,
        )
        for race in investigation.races
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


_CHAIN_SHOWN = 4
_NOT_JUDGED: Final = {
    "greenlets": "several greenlets import in one thread, and only threads are told apart",
    "free threading": "its interpreter runs without the GIL, for which no check exists yet",
}


def not_judged(why: str) -> str:
    """Why nothing is known of a process, from the word in its trace."""
    return _NOT_JUDGED.get(why, f"{why} switches stacks within a thread")


def what(hazard: Hazard) -> str:
    """What is special about its modules."""
    first = hazard.modules[0]
    *others, last = hazard.modules
    together = f"{', '.join(others)} and {last}" if others else last
    return kind_of(hazard).what.format(first=first, all=together, last=last)


def threads(hazard: Hazard) -> str:
    """Which threads import them."""
    first = hazard.first
    second = hazard.second
    words = kind_of(hazard).threads
    if words is not None:
        return words.format(first=first.thread, second=second.thread)
    if first.name == second.name:
        return f"and threads {first.thread} and {second.thread} import it"
    one = f"thread {first.thread} imports {first.name}"
    other = f"thread {second.thread} {second.name}"
    return f"and {one}, {other}"


def describe_import(side: Import) -> str:
    """One side of a hazard, with the chain of modules that led to it, innermost first."""
    statement = f"thread {side.thread} imports {side.name}"
    if side.names:
        statement += f" ({', '.join(side.names)})"
    if side.site == side.thread_started_at:
        return f"thread {side.thread} starts here, in a file that imports {side.name}"
    lines = [statement]
    if side.thread_started_at is not None:
        lines.append(f"started at {place(side.thread_started_at)}")
    outer = [site for site in side.chain if site != side.site]
    hidden = len(outer) - _CHAIN_SHOWN
    if hidden > 0:
        lines.append(f"… {hidden} more")
    # The outermost ones are shown: they are in the program's own code, where it can be changed.
    outermost = reversed(outer[:_CHAIN_SHOWN])
    lines.extend(f"while {site.module} runs {place(site)}" for site in outermost)
    return "\n".join(lines)


def describe_harm(thread: str, event: Missing | Deadlock | Wait) -> str:
    """What went wrong in a thread, in a sentence without its full stop."""
    match event:
        case Missing(attribute="*"):
            return (
                f"thread {thread} took `*` from the incomplete {event.name} at {place(event.site)}"
            )
        case Missing():
            return (
                f"thread {thread} found no {event.attribute} in {event.name} at {place(event.site)}"
            )
        case Deadlock():
            return f"the import of {event.name} in thread {thread} ended with _DeadlockError"
        case Wait():
            return (
                f"thread {thread} received the unfinished module {event.name} "
                "instead of the error of its import"
            )


def place(site: Site) -> str:
    """`file:line`."""
    return f"{shown(site.file)}:{site.line}"


def shown(path: str) -> str:
    """`path` as a person types it: relative, if it is below the working directory."""
    if not os.path.isabs(path):  # noqa: PTH117
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


# Examples of what was started; the facts list all.
_COMMANDS_SHOWN = 3
# What went wrong first; all of it follows from one race.
_HARMS_SHOWN = 3
# Harm is an error even if the program ignored it: another run may not be able to.
_SEVERITIES: Final = {
    Standing.FIRED: Severity.ERROR,
    Standing.CONFIRMED: Severity.ERROR,
    Standing.POSSIBLE: Severity.WARNING,
    Standing.OPEN: Severity.WARNING,
    Standing.HARMLESS: Severity.WARNING,
}

_STANDINGS: Final = {
    Standing.FIRED: "it fired in the recorded run",
    Standing.OPEN: "the runs with a delay could not decide it",
    Standing.HARMLESS: "a thread was handed a wrong module, and nothing that it read was missing",
}


def findings(investigation: Investigation, excerpts: dict[int, str]) -> Iterator[Finding]:
    """All of them; `excerpts` has the last lines that runs with a delay wrote to stderr."""
    run = investigation.recorded
    for race in investigation.races:
        # Of what no delay made happen, the summary and the facts tell.
        if race.standing is not Standing.SAFE:
            yield _of_hazard(race, investigation, excerpts)
    # With a hazard the result is not a pass anyway; without one, the child may be what raced.
    severity = Severity.NOTE if investigation.races else Severity.WARNING
    escapes = [(each.why, each.argv) for process in run.processes for each in process.escapes]
    for why, commands in _by_reason(escapes):
        yield rules.NOT_FOLLOWED.finding(
            f"{len(commands)} of the Pythons that were started could not be followed: {why}",
            evidence=commands[:_COMMANDS_SHOWN],
            remedy=rules.NOT_FOLLOWED.remedy,
            severity=severity,
        )
    unjudged = [(why, process.argv) for process in run.processes for why in process.unjudged]
    for why, commands in _by_reason(unjudged):
        yield rules.NOT_JUDGED.finding(
            f"imports cannot be judged in {len(commands)} of the processes: {not_judged(why)}",
            evidence=commands[:_COMMANDS_SHOWN],
            remedy=rules.NOT_JUDGED.remedy,
        )
    yield from _of_recording(investigation)


def _by_reason(
    commands: Iterable[tuple[str, tuple[str, ...]]],
) -> Iterator[tuple[str, tuple[Evidence, ...]]]:
    """The commands of each reason: a test suite may start the same tool a thousand times."""
    by_reason: dict[str, list[Evidence]] = defaultdict(list)
    for why, argv in commands:
        by_reason[why].append(Evidence(excerpt=" ".join(argv)))
    for why, evidence in by_reason.items():
        yield why, tuple(evidence)


def _of_recording(investigation: Investigation) -> Iterator[Finding]:
    """What is wrong with the recording as a whole."""
    run = investigation.recorded
    if run.unreadable or not run.processes:
        summary = "imports were not recorded, or cannot be read"
        if investigation.isolated:
            summary = f"not followed: {investigation.isolated}"
        yield rules.NOT_RECORDED.finding(
            summary,
            evidence=tuple(Evidence(excerpt=text) for text in run.unreadable),
            remedy=rules.NOT_RECORDED.remedy,
        )
    # A race that fired may be why the command failed: the failure is no finding of its own then.
    has_fired = investigation.count(Standing.FIRED) > 0
    if run.command_failed and run.processes and not has_fired:
        yield rules.COMMAND_FAILED.finding(
            f"the command ended with {run.describe_end()}, so it may have ended before some of its "
            "imports",
            remedy=rules.COMMAND_FAILED.remedy,
        )


def _of_hazard(race: Race, investigation: Investigation, excerpts: dict[int, str]) -> Finding:
    hazard = race.worst
    rule = kind_of(hazard).rule
    # What the runs with a delay show is the finding then, and no longer the kind of the hazard.
    if race.standing is Standing.OPEN and race.delays:
        rule = rules.NOT_SETTLED
    return rule.finding(
        f"{what(hazard)}, {threads(hazard)}: {_standing(race)}",
        evidence=tuple(_evidence(race, investigation, excerpts)),
        remedy=remedy(hazard, investigation.rules).text,
        severity=_SEVERITIES[race.standing],
    )


def _standing(race: Race) -> str:
    words = _STANDINGS.get(race.standing, "nothing orders the two imports")
    if race.standing is Standing.CONFIRMED and race.hold is not None:
        # A delay adds no order that cannot come about by itself: what fires with it can fire
        # without it.
        words = f"it fired in a run with a delay ({race.hold.describe()})"
    if race.standing is Standing.OPEN and not race.runs:
        words = "no run was made for it"
        if not race.delays:
            words = "nothing orders the two, and no run with a delay decides it"
    return words


def _evidence(
    race: Race, investigation: Investigation, excerpts: dict[int, str]
) -> Iterator[Evidence]:
    hazards = race.hazards
    for side in (hazards[0].first, hazards[0].second):
        # A frame without a line number has line 0 in the trace.
        line = side.site.line or None
        yield Evidence(file=shown(side.site.file), line=line, excerpt=describe_import(side))
    lines = [hazards[0].detail]
    # Each pair once: several threads or processes may meet at the same two lines.
    places = {(hazard.first.site, hazard.second.site) for hazard in hazards}
    if len(places) > 1:
        lines.append(f"the same at {len(places) - 1} more pairs of places")
    if len(investigation.recorded.processes) > 1:
        pids = sorted({hazard.pid for hazard in hazards})
        lines.append(f"in process {', '.join(map(str, pids))}")
    if race.standing is Standing.FIRED:
        lines += _of_harm(race, investigation.recorded)
    yield Evidence(excerpt="\n".join(lines))
    if race.fired_in is not None:
        yield _of_run(race, race.fired_in, excerpts)


def _of_run(race: Race, held: HeldRun, excerpts: dict[int, str]) -> Evidence:
    recorded = held.recorded
    ending = f"ended with {recorded.describe_end()}"
    if recorded.timed_out:
        ending = "was stopped, it did not end"
    lines = [*_of_harm(race, recorded), f"the run with the delay {ending}"]
    if held.newly_failed:
        failed = ", ".join(held.newly_failed[:_HARMS_SHOWN])
        lines.append(f"the import of {failed} failed, and succeeds without the delay")
    # A program that ends well may still write warnings, which would look like evidence.
    excerpt = excerpts.get(held.number)
    if excerpt and (recorded.timed_out or recorded.exit_code != 0):
        lines.append(excerpt)
    return Evidence(excerpt="\n".join(lines))


def _of_harm(race: Race, run: RecordedRun) -> list[str]:
    """The first things that went wrong, each in a sentence."""
    happened = [
        describe_harm(thread, event)
        for hazard in race.hazards
        for thread, event in harms(hazard, run.processes)
    ]
    return list(dict.fromkeys(happened))[:_HARMS_SHOWN]
