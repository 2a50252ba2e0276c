# SPDX-License-Identifier: Apache-2.0
"""Tells on stderr how services fare: one live line each on a terminal, one plain line per event elsewhere."""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from ci_doctor.commands.live_block import LiveBlock
from ci_doctor.services.outcome import EventKind, ServiceEvent
from ci_doctor.system import clock

if TYPE_CHECKING:
    from ci_doctor.services.logs.watch import LogWatch

WORDS = {
    EventKind.STARTED: "started",
    EventKind.READY: "ready",
    EventKind.DIED: "died",
    EventKind.DESCENDANT_DIED: "lost",
    EventKind.STOPPING: "stopping",
    EventKind.KILLED: "killed",
    EventKind.STOPPED: "stopped",
}
# ANSI colours that are readable on dark and light grounds, one per service in turn.
_COLOURS = ("36", "33", "35", "32", "34", "91")
_TICK_S, _CALM_TICK_S = 0.25, 1.0


class LiveLines:
    """Give it every event of a group, inside `with`: what is live must stand still before a report is shown."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        follow: bool = False,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        """`follow` shows what the services write too; `redact` takes secrets out of it."""
        terminal = _is_watched()
        self._began = clock.now()
        self._names = tuple(names)
        self._redact = redact
        self._colour = terminal and not os.environ.get("NO_COLOR")
        self._block = LiveBlock(names, colour=self._colour, redact=redact) if terminal else None
        self._drawn, self._said = 0, False
        self._follow = follow
        self._watches: list[LogWatch] = []
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for watch in self._watches:
            watch.close()
        self.freeze()
        if self._said:
            _write("\n")  # the report is another matter

    def __call__(self, event: ServiceEvent) -> None:
        """Show what happened."""
        self._said = True
        if self._follow and event.kind is EventKind.STARTED and event.log is not None:
            self._watch(event.service or "", event.log)
        if self._block is None:
            self.say(f"{event.at - self._began:7.1f} s  {event_line(event)}")
            return
        self._block.take(event)
        self._draw()
        if self._timer is None:
            self._tick()

    def say(self, *lines: str) -> None:
        """Show lines that stay, above what is live."""
        self._wipe()
        _write("".join(f"{line}\n" for line in lines))
        self._draw(wiped=True)

    def freeze(self) -> None:
        """Let the live lines stand as they are: from here on the terminal is somebody else's, and events get plain lines."""
        if self._timer is not None:
            self._timer.cancel()
        if self._block is not None and self._drawn:
            self._draw()
        self._block, self._drawn = None, 0

    def _tick(self) -> None:
        if self._block is None:
            return
        self._draw()
        # What is stopped by the last resort tells of it outside the loop.
        with contextlib.suppress(RuntimeError):
            pause_s = _TICK_S if self._block.is_busy else _CALM_TICK_S
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._tick)

    def _draw(self, *, wiped: bool = False) -> None:
        if self._block is None:
            return
        columns, rows = _terminal_size()
        lines = self._block.lines(clock.now(), columns - 1)[: rows - 1]
        before = "" if wiped else _above(self._drawn)
        _write(before + "".join(f"{line}\n" for line in lines))
        self._drawn = len(lines)

    def _wipe(self) -> None:
        if self._drawn:
            _write(_above(self._drawn))
            self._drawn = 0

    def _watch(self, name: str, log: str) -> None:
        from pathlib import Path

        from ci_doctor.render.figures import size
        from ci_doctor.render.safe_text import printable
        from ci_doctor.services.logs.watch import LogWatch

        prefix = f"{name.ljust(max(map(len, self._names)))} | "
        if self._colour:
            colour = (
                _COLOURS[self._names.index(name) % len(_COLOURS)]
                if name in self._names
                else _COLOURS[0]
            )
            prefix = f"\x1b[{colour}m{prefix}\x1b[0m"

        def show(lines: list[str]) -> None:
            text = printable(self._redact("\n".join(lines)))
            self.say(*(prefix + line for line in text.split("\n")))

        def skip(count: int) -> None:
            self.say(f"{prefix}({size(count)} came too fast to be shown; they are in {log})")

        self._watches.append(LogWatch(Path(log), show, on_skipped=skip))


def _is_watched() -> bool:
    """Whether a person sits before a terminal that can redraw; an agent gives its jobs one too, and sets CI."""
    if sys.stderr is None or not sys.stderr.isatty():  # None: closed by whoever started us
        return False
    return not os.environ.get("CI") and os.environ.get("TERM", "dumb") != "dumb"


def _above(count: int) -> str:
    """To the beginning of the line that stands `count` lines higher, all below it wiped (ECMA-48 CPL and ED)."""
    return f"\x1b[{count}F\x1b[J" if count else ""


def _terminal_size() -> tuple[int, int]:
    try:
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        columns, rows = shutil.get_terminal_size((80, 24))
    return columns or 80, rows or 24


def _write(text: str) -> None:
    """Talk is not evidence: where nobody listens any more, the services go on."""
    with contextlib.suppress(OSError):
        click.echo(text, nl=False, err=True, color=True)


def event_line(event: ServiceEvent) -> str:
    """An event in words."""
    parts = [event.service or "", WORDS[event.kind]]
    if event.name:
        parts.append(f"{event.name} (pid {event.pid})")
    elif event.kind is EventKind.STARTED:
        parts.append(f"(pid {event.pid}, {event.log})")
    if event.duration_s is not None:
        parts.append(f"after {event.duration_s:.1f} s")
    if event.kind is EventKind.READY and event.url:
        parts.append(f"at {event.url}")
    if event.signal:
        parts.append(f"by {event.signal}")
    elif event.exit_code is not None:
        parts.append(f"with exit code {event.exit_code}")
    return " ".join(filter(None, parts))
