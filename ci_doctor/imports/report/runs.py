# SPDX-License-Identifier: Apache-2.0
"""The processes, runs and cases of an investigation, as a report has them. Pure."""

import shlex
from collections.abc import Iterator
from typing import Final

from ci_doctor.imports.confirm.rule_trial import RuleStanding
from ci_doctor.imports.confirm.run import HeldRun
from ci_doctor.imports.confirm.standing import Standing
from ci_doctor.imports.investigation import Investigation
from ci_doctor.imports.record.recorded import RecordedProcess, RecordedRun
from ci_doctor.imports.report.describe import shown, what
from ci_doctor.imports.report.facts import count_loaded, not_looked_at
from ci_doctor.model.outcome import Attempt, Case, CaseOutcome
from ci_doctor.model.shortened import shortened
from ci_doctor.model.table import Row, Table, row

# A test suite with workers has dozens, and most of them look alike.
_PROCESSES_SHOWN = 6
_COMMAND_SHOWN = 60
_PROCESS_COLUMNS = ("Python", "modules", "threads", "command")
_EXPOSURES = {True: "exposed", False: "immune", None: "unknown: the check failed"}
_OUTCOMES = {
    Standing.FIRED: CaseOutcome.FAILED,
    Standing.CONFIRMED: CaseOutcome.FAILED,
    Standing.POSSIBLE: CaseOutcome.ERROR,
    Standing.OPEN: CaseOutcome.ERROR,
    Standing.HARMLESS: CaseOutcome.PASSED,
    Standing.SAFE: CaseOutcome.PASSED,
    Standing.KNOWN: CaseOutcome.PASSED,
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
        interpreters.append(row(shown(executable), _EXPOSURES[exposed]))
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
