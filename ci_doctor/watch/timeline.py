# SPDX-License-Identifier: Apache-2.0
"""Pure. The commands of a script in the order of their starts, its servers, and where its time went."""

import shlex
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.model.facts.watch import WatchedCommand, WatchedServer, WatchFacts
from ci_doctor.model.table import Row, Table, row, seconds
from ci_doctor.model.words import shortened
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
        title="Timeline", columns=("command", "seconds", "end"), rows=tuple(table), is_aside=True
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
