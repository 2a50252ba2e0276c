# SPDX-License-Identifier: Apache-2.0
"""Acts on stderr: shows progress, live on a terminal that can redraw, else as plain lines."""

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from ci_doctor.commands.telling.line import Line, LineKind, ProgressSource, Span
from ci_doctor.commands.telling.screen import Screen, write
from ci_doctor.render.safe_text import printable
from ci_doctor.session.log_stream import LogGroup, begin_output
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor

EventT = TypeVar("EventT")

# Seconds. A person sees some frames a second; a server answers a thousand times in one.
_REDRAW_S = 0.1
_TICK_S = 0.25
# Seconds, for plain lines. Work that ends soon needs no word, and a log keeps each status line.
_QUIET_S = 2.0
_EVERY_S = 5.0
_LINE_END = re.compile(r" *\n\s*")


class Teller(Generic[EventT]):
    """Call it with each event of its source, inside `with`; a report may follow after the block.

    It needs no event loop. In one, live lines go on counting seconds between events. All that it
    shows is one harmless line without secrets. A stderr that is closed, full or not read any more
    stops nothing.
    """

    def __init__(
        self, source: ProgressSource[EventT], redactor: Redactor | None = None, *, group: str = ""
    ) -> None:
        """`group` is the title of its group in the log of a CI, empty for none.

        `redactor` knows the secrets of the command. Without it those of our own environment are
        taken out.
        """
        self._source = source
        self._group = LogGroup(group) if group else None
        self._redactor = redactor or Redactor.from_environment(os.environ)
        self._screen = Screen()
        self._timer: asyncio.TimerHandle | None = None
        self._last_draw = float("-inf")
        self._status_due = clock.now() + _QUIET_S
        self._has_kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._source.remains:
            self.freeze()
        else:
            self._screen.put([], [])
            self._leave()
        if self._has_kept:
            write("\n")  # between the progress and the report
        self._end_group()

    def __call__(self, event: EventT) -> None:
        """Show `event`."""
        kept = filter(self._stays, self._source.take(event))
        lines = [line.text for line in kept]
        if lines:
            self.say(*lines)
        else:
            self._refresh()

    def say(self, *lines: str) -> None:
        """Show sentences that stay. On a terminal they wrap between words, in a log never."""
        # A status right after a sentence adds nothing to it.
        quiet_until = clock.now() + _QUIET_S
        self._status_due = max(self._status_due, quiet_until)
        rows: list[str] = []
        for line in lines:
            rows += self._rows(line)
        self._keep(rows)

    def warn(self, text: str) -> None:
        """Show a warning; it stays."""
        self.say(f"warning: {text}")

    def output(self, label: Span, text: str) -> None:
        """Show lines of `text` that a program wrote, each behind `label`.

        They stay, and are never broken.
        """
        before = self._screen.tint(label.text, label.colour)
        # Only values, as in the kept log: our names for secrets are plain words to a program.
        safe = _safe(text, self._redactor.without_values)
        lines = safe.split("\n")
        self._keep([before + line for line in lines])

    def hand_over(self, title: str) -> None:
        """Show `title` and end the group: what follows is the output of another program.

        Our own lines stand between its lines from now on.
        """
        self._end_group()
        if not begin_output(self._one_safe_line(title)):
            self.say(title)

    def freeze(self) -> None:
        """Let the live lines stand as they are; from now on events get plain lines.

        The terminal is another program's now.
        """
        if self._screen.is_drawn:
            self._draw([])
            self._has_kept = True
        self._leave()

    def _end_group(self) -> None:
        if self._group is not None:
            self._group.end()
        self._group = None

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._screen.leave()

    def _stays(self, line: Line) -> bool:
        if line.kind is LineKind.KEPT:
            return True
        if self._screen.is_live:
            return False
        if line.kind is LineKind.LOG:
            return True
        now = clock.now()
        if now < self._status_due:
            return False
        self._status_due = now + _EVERY_S
        return True

    def _rows(self, line: str) -> list[str]:
        text = self._one_safe_line(line)
        if not self._screen.is_live:
            return [text]
        from ci_doctor.render.layout import wrap

        self._screen.measure()
        return wrap(text, self._screen.columns, rest="  ")

    def _one_safe_line(self, text: str) -> str:
        safe = _safe(text, self._redactor.text)
        return _LINE_END.sub(" ", safe)

    def _keep(self, lines: Sequence[str]) -> None:
        self._has_kept = True
        if self._group is not None:
            self._group.begin()
        self._draw(lines)

    def _refresh(self) -> None:
        """Draw what has changed, unless that was done a moment ago: then the next tick does it."""
        if not self._screen.is_live:
            return
        ticking = self._start_to_tick()
        elapsed_s = clock.now() - self._last_draw
        if not ticking or elapsed_s >= _REDRAW_S:
            self._draw([])

    def _start_to_tick(self) -> bool:
        """Whether something will draw later without an event: an event loop runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        # One timer at a time; after its tick it is made anew, so that it dies with its loop.
        if self._timer is None:
            self._timer = loop.call_later(_TICK_S, self._tick)
        return True

    def _tick(self) -> None:
        self._timer = None
        if self._screen.is_live:
            self._draw([])
            self._start_to_tick()

    def _draw(self, kept: Sequence[str]) -> None:
        live: list[str] = []
        if self._screen.is_live:
            self._screen.measure()
            now = clock.now()
            self._last_draw = now
            width = self._screen.columns - 1
            live = [self._painted(row) for row in self._source.live(now, width)]
        self._screen.put(kept, live)

    def _painted(self, row: Sequence[Span]) -> str:
        # Secrets first: half a secret, cut off at the terminal's edge, would not be recognised.
        safe = []
        for span in row:
            text = self._one_safe_line(span.text)
            safe.append(Span(text, span.colour))
        return self._screen.paint(safe)


def _safe(text: str, hide: Callable[[str], str]) -> str:
    """Return `text` without secrets and with nothing in it that acts on a terminal."""
    hidden = hide(text)
    safe = printable(hidden)
    if safe == hidden:
        return hidden
    # An escape sequence in the middle of a secret hid it from the first look.
    return hide(safe)
