# SPDX-License-Identifier: Apache-2.0
"""Pure. What was seen of a script as findings, tables, facts and lines, beside their rules; where its time went."""

import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from ci_doctor.model.facts.diagnose import (
    SupervisedRunFacts,
    WatchedCommand,
    WatchedDeath,
    WatchedServer,
    WatchedStall,
    WatchFacts,
)
from ci_doctor.model.facts.launch import LeftThing, ServiceFailure
from ci_doctor.model.outcome import (
    Evidence,
    Finding,
    Outcome,
    Row,
    Rule,
    Severity,
    Table,
    row,
    seconds,
)
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import duration
from ci_doctor.services.findings import evidence_of, finding_of, leak_findings, leak_table
from ci_doctor.system.processes.process import signal_name
from ci_doctor.watch.judging import Listener, Process

# What ran for less is left out, unless it served.
SHORT_S: Final = 1.0
_MOST_ROWS: Final = 40
_COMMAND: Final = 100


class Runs(Struct, kw_only=True):
    """The runs of one command line below one parent: the first one, the last one, how many, how long."""

    first: Process
    last: Process
    count: int = 0
    seconds: float = 0.0


class Timeline:
    """The commands that ran for a second, or served; a loop's are one."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, tuple[str, ...]], Runs] = {}

    def add(self, process: Process, now: float) -> None:
        """It has ended, or `now` is the end of the script."""
        length_s = (process.ended or now) - process.born
        if (length_s < SHORT_S and not process.ports) or process.is_copy:
            return
        # By the parent that is kept here: its number is no other object's.
        key = (id(process.parent), process.words)
        runs = self._runs.setdefault(key, Runs(first=process, last=process))
        runs.last = process
        runs.count += 1
        runs.seconds += length_s

    def commands(self, began: float) -> tuple[WatchedCommand, ...]:
        """All of them, by their first start."""
        runs = sorted(self._runs.values(), key=lambda each: each.first.born)
        return tuple(_command(each, began) for each in runs)


def command_line(process: Process) -> str:
    """Its command line as a shell takes it, shortened."""
    words = process.words or (process.kin.name,)
    return shortened(" ".join(shlex.join(words).split()), _COMMAND)


def _command(runs: Runs, began: float) -> WatchedCommand:
    code = runs.last.returncode
    return WatchedCommand(
        command=command_line(runs.first),
        pid=runs.first.pid,
        start_s=round(max(0.0, runs.first.born - began), 1),
        seconds=round(runs.seconds, 1),
        count=runs.count,
        exit_code=code if code is not None and code >= 0 else None,
        signal=signal_name(-code) if code is not None and code < 0 else None,
        runs_on=runs.last.ended is None,
        log=runs.first.log,
        ports=tuple(sorted(runs.first.ports | runs.last.ports)),
    )


def servers(
    listeners: Iterable[Listener],
    gone: Mapping[int, float],
    refused: Mapping[int, Sequence[float]],
    named: Container[int],
    began: float,
) -> tuple[WatchedServer, ...]:
    """The ports that processes of the script served, and those `named` by it that others served."""
    found = []
    earlier: dict[int, float] = {}
    for listener in listeners:
        if listener.owner is None and listener.port not in named:
            continue
        since = earlier.get(listener.port, began)
        asked = [at for at in refused.get(listener.port, ()) if since <= at <= listener.since]
        earlier[listener.port] = gone.get(id(listener), listener.since)
        end = gone.get(id(listener))
        found.append(
            WatchedServer(
                port=listener.port,
                command=None if listener.owner is None else command_line(listener.owner),
                start_s=round(listener.since - began, 1),
                end_s=None if end is None else round(end - began, 1),
                asked_s=round(asked[0] - began, 1) if asked else None,
                refused=len(asked),
            )
        )
    return tuple(found)


def timeline_table(facts: WatchFacts) -> Table:
    """The longest commands in the order of their starts, and each server."""
    commands = facts.commands
    if len(commands) > _MOST_ROWS:
        shortest = sorted(commands, key=lambda each: each.seconds)[: len(commands) - _MOST_ROWS]
        commands = tuple(each for each in commands if each not in shortest)
    rows = [(each.start_s, _row_of(each)) for each in commands]
    rows += [(each.start_s, _server_row(each)) for each in facts.servers]
    rows.sort(key=lambda each: each[0])
    table = [each for _, each in rows]
    if facts.unseen:
        table.append(row(f"at most {facts.unseen} processes and threads were too short to be seen"))
    return Table(
        title="Timeline", columns=("command", "time", "end"), rows=tuple(table), is_aside=True
    )


def _row_of(command: WatchedCommand) -> Row:
    times = f"{command.command} (×{command.count})" if command.count > 1 else command.command
    end = "runs on" if command.runs_on else _end(command) or "exit code unknown"
    if command.log is not None:
        end += f", log {command.log}"
    return row(_at(command.start_s), times, seconds(command.seconds), end)


def _end(command: WatchedCommand) -> str | None:
    return command.signal if command.exit_code is None else f"exit code {command.exit_code}"


def _server_row(server: WatchedServer) -> Row:
    who = server.command or "a process outside the script"
    waited = ""
    if server.asked_s is not None:
        waited = f", asked for since {_at(server.asked_s)} ({server.refused} refused)"
    up = None if server.end_s is None else round(server.end_s - server.start_s, 1)
    return row(
        _at(server.start_s),
        f"port {server.port} is up{waited}",
        seconds(up),
        who,
    )


def _at(start_s: float) -> str:
    minutes, rest = divmod(max(0.0, start_s), 60)
    return f"+{int(minutes)}:{rest:04.1f}"


def longest(facts: WatchFacts, most: int) -> list[str]:
    """`2.5 s  sleep 5 (×3)`: the commands that took the most time, for a terminal, and how they failed."""
    ranked = sorted(facts.commands, key=lambda each: -each.seconds)[:most]
    ranked.sort(key=lambda each: each.start_s)
    return [
        f"{_at(each.start_s)} {each.seconds:g} s {each.command}"
        + (f" (×{each.count})" if each.count > 1 else "")
        + (f": {_end(each)}" if each.exit_code != 0 and _end(each) else "")
        for each in ranked
    ]


# --- what was seen of a script as findings, a table, facts and lines, beside their rules ---


DIED = Rule(
    id="watch/died",
    severity=Severity.ERROR,
    meaning=(
        "A server of the script ended while the script still waited for it, or before the script "
        "failed: nobody answered any more."
    ),
    remedy="Read the excerpt of its log; `--on-death end` ends a script that waits.",
)
ENDED = Rule(
    id="watch/ended",
    severity=Severity.WARNING,
    meaning=(
        "A job in the background ended by a fault of its own before the script failed. Nothing shows "
        "whether the script needed it."
    ),
    remedy="Read the excerpt of its log, and whether the script asked it after that end.",
)
STALL = Rule(
    id="watch/stall",
    severity=Severity.WARNING,
    meaning=(
        "For a time the script wrote nothing, used no CPU, and moved nothing over the network or to "
        "a disk; or the time of its step is nearly over. The evidence is what each process waits for."
    ),
    remedy="Read what each process waits for; with py-spy or `--stacks` Python stacks stand there.",
)
RULES = (DIED, ENDED, STALL)

_SHOWN = 5
_LONGEST = 6


def lines_of(failure: ServiceFailure, waits: str) -> Iterator[str]:
    """What is said of a death at once: how, by which cause, and what waits for it."""
    yield f"✗ {failure.message}"
    yield f"  {_telling_line(failure)}"
    yield f"  {waits}"


def _telling_line(failure: ServiceFailure) -> str:
    """The line of its log that says most, with its place."""
    if failure.cause is not None:
        return f"{failure.cause.place.where}: {failure.cause.place.text.strip()}"
    if failure.tail:
        root = len(failure.tail) - 1 if failure.tail_root is None else failure.tail_root
        return f"{failure.log}: {failure.tail[root].strip()}"
    if failure.log is None:
        return "its output went into no file that can be read"
    return f"{failure.log} is empty"


def stall_lines(stall: WatchedStall) -> Iterator[str]:
    """What is said of a stall at once."""
    if stall.why == "deadline":
        yield f"the step's time is nearly over, after {duration(stall.seconds)}; its processes:"
    else:
        yield f"nothing has been done for {duration(stall.seconds)}; its processes:"
    yield from (f"  {line}" for line in stall.processes)


def left_lines(things: Iterable[LeftThing], *, ended: bool) -> Iterator[str]:
    """What is said of what the script has left."""
    things = tuple(things)
    for thing in things[:_SHOWN]:
        remedy = "" if ended or thing.remedy is None else f" ({thing.remedy})"
        what = f"{thing.kind} {thing.name}"
        said = f"{what} was ended with the script" if ended else f"the script left behind {what}"
        yield f"{said}: {thing.why}{remedy}"
    if len(things) > _SHOWN:
        yield f"and {len(things) - _SHOWN} more"


def end_lines(facts: WatchFacts, *, failed: bool) -> list[str]:
    """What a terminal shows last: nothing of a script that ran well and left nothing."""
    lines = list(left_lines(facts.left.things, ended=False))
    if failed or facts.deaths:
        lines += [f"time: {line}" for line in longest(facts, _LONGEST)]
    if facts.problem is not None:
        lines.append(facts.problem)
    return lines


def death_lines(facts: WatchFacts, *, failed: bool) -> list[str]:
    """What a terminal shows before what the log of the script says: that is what it noticed at last."""
    lines = []
    for death in facts.deaths[-_SHOWN:] if failed or facts.is_ended else ():
        word = "ended before" if death.is_late else "waited for"
        lines += [f"{word}: {death.failure.message}", f"  {_telling_line(death.failure)}"]
        lines += [f"  {death.waits}"] if death.is_late else []
    for failure in facts.ends[-_SHOWN:]:
        lines += [f"perhaps the cause: {failure.message}"]
        lines += [f"  {_telling_line(failure)}"]
    return lines


ENDED_STATUS = 1


def with_watch(outcome: Outcome, facts: WatchFacts, retry_status: int | None = None) -> Outcome:
    """`outcome` with what was seen; no verdict changes.

    If the watch has ended the script, its status is 1, or `retry_status` if another run helps. Of a script that
    failed itself, the summary begins with the first server whose death it had waited through.
    """
    run = outcome.facts
    if isinstance(run, SupervisedRunFacts):
        run = structs.replace(run, watch=facts)
    findings = (
        *map(_death, facts.deaths),
        *map(_end_of_job, facts.ends),
        *map(_stall, facts.stalls),
        *leak_findings(facts.left),
    )
    summary, status = outcome.summary, outcome.command_status
    if facts.is_ended:
        summary = f"{facts.deaths[-1].failure.message}; the script was ended"
        failure = facts.deaths[-1].failure
        helps = failure.may_be_retried
        status = retry_status if retry_status is not None and helps else ENDED_STATUS
    elif status and facts.unanswered:
        summary = f"{facts.unanswered[0].failure.message}; then {summary}"
    return structs.replace(
        outcome,
        summary=summary,
        command_status=status,
        findings=(*findings, *outcome.findings),
        tables=(timeline_table(facts), *leak_table(facts.left), *outcome.tables),
        facts=run,
    )


def _death(death: WatchedDeath) -> Finding:
    plain = finding_of(death.failure)
    return structs.replace(
        DIED.finding(death.failure.message, remedy=plain.remedy or DIED.remedy),
        evidence=(*plain.evidence, Evidence(excerpt=death.waits)),
        remedy_kind=plain.remedy_kind,
    )


def _end_of_job(failure: ServiceFailure) -> Finding:
    # Whether another run helps is the cause's to say, and this may be none.
    evidence = evidence_of(failure, about_runs=False)
    return ENDED.finding(failure.message, evidence=evidence, remedy=ENDED.remedy)


def _stall(stall: WatchedStall) -> Finding:
    first, *lines = stall_lines(stall)
    return STALL.finding(
        first.removesuffix("; its processes:"),
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy=STALL.remedy,
    )
