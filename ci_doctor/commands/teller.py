# SPDX-License-Identifier: Apache-2.0
"""Acts on stderr: shows progress, live on a terminal that can redraw, else as plain lines."""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from msgspec import Struct

from ci_doctor.render.safe_text import printable
from ci_doctor.session.printing import LogGroup, begin_output, dialect_on, harmless
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor

EventT_contra = TypeVar("EventT_contra", contravariant=True)

if TYPE_CHECKING:
    import asyncio


class LineKind(StrEnum):
    """Where a line is shown.

    `KEPT`: everywhere. `LOG`: in plain lines only, because a terminal shows the same thing live.
    `STATUS`: how things stand now; live on a terminal, and once in a while in plain lines.
    """

    KEPT = "kept"
    LOG = "log"
    STATUS = "status"


class Line(Struct, frozen=True):
    """One line of plain text. The teller clips it, redacts it and removes escape sequences."""

    text: str
    kind: LineKind = LineKind.KEPT


class Span(Struct, frozen=True):
    """A piece of a live line.

    `colour` is an SGR parameter of ECMA-48 ("32" is green), empty for none.
    """

    text: str
    colour: str = ""


class ProgressSource(Protocol[EventT_contra]):
    """Turns the events of one room into lines."""

    @property
    def remains(self) -> bool:
        """Whether its live lines stay on the terminal at the end."""

    def take(self, event: EventT_contra) -> Iterable[Line]:
        """Process `event` and return its lines."""

    def live(self, now: float, columns: int, /) -> Sequence[Sequence[Span]]:
        """Return the live lines at `now` (monotonic seconds) for a terminal of `columns` cells."""


class StepSource:
    """The source for steps whose names are shown before they begin.

    `kind` is `KEPT` if a step may take minutes or its program writes to the same terminal, and
    `STATUS` if the steps are short.
    """

    remains = False

    def __init__(self, kind: LineKind, *, quiet_s: float = 0.0) -> None:
        """`quiet_s`: no step is live before so many seconds have passed."""
        self._kind = kind
        self._due = clock.now() + quiet_s
        self._step = ""

    def take(self, event: str) -> Iterator[Line]:
        """Return the line of the next step."""
        self._step = event
        yield Line(event, self._kind)

    def live(self, now: float, _columns: int) -> Sequence[Sequence[Span]]:
        """Return the current step as a live line; no line if the steps are kept."""
        if not self._step or self._kind is not LineKind.STATUS or now < self._due:
            return []
        return [[Span(self._step)]]


class Screen:
    """The one owner of stderr while something is live.

    `is_live` if it can redraw, `has_colour` if it may colour.
    """

    def __init__(self) -> None:
        self.is_live = _can_redraw()
        self.has_colour = self.is_live and not os.environ.get("NO_COLOR")
        self.columns = 80
        self._rows = 24
        self._drawn: list[str] = []
        self._drawn_columns = 0
        self.measure()

    @property
    def is_drawn(self) -> bool:
        """Whether live lines stand on the terminal."""
        return bool(self._drawn)

    def measure(self) -> None:
        """Look how large the terminal is: a person may resize it at any time."""
        if not self.is_live:
            return
        try:
            columns, rows = os.get_terminal_size(sys.stderr.fileno())
        except (OSError, ValueError, AttributeError):
            columns, rows = shutil.get_terminal_size((80, 24))
        # A pseudo-terminal that nobody has given a size has none: 0 x 0.
        self.columns = columns or 80
        self._rows = rows or 24

    def put(self, kept: Sequence[str], live: Sequence[str]) -> None:
        """Write `kept` above what is live, and `live` in its place.

        Nothing is written if nothing changes.
        """
        # As many lines as the terminal has would scroll the first out of the cursor's reach.
        fitting = list(live[: self._rows - 1])
        # A terminal that was resized has broken the lines anew: they are drawn again.
        is_same = fitting == self._drawn and self.columns == self._drawn_columns
        if is_same and not kept:
            return
        text = _above(len(self._drawn))
        for line in kept:
            text += harmless(f"{line}\n", sys.stderr)
        for line in fitting:
            text += f"{line}\n"
        # One write: what is wiped and not yet drawn again would be seen as a flicker.
        write(text)
        self._drawn = fitting
        self._drawn_columns = self.columns

    def leave(self) -> None:
        """Let the live lines stand as they are; from here on there are none."""
        self.is_live = False
        self._drawn = []

    def paint(self, spans: Sequence[Span]) -> str:
        """Return `spans` as one line which is narrower than the terminal."""
        from ci_doctor.render.layout import clip

        line = "".join(span.text for span in spans)
        # Narrower by one cell: a terminal wraps after its last one, and the line would be two.
        width = self.columns - 1
        # Clipped first and coloured then: an escape sequence has no width, and must not be cut.
        rest = clip(line.rstrip(), width)
        painted = ""
        for span in spans:
            end = len(span.text)
            painted += self.tint(rest[:end], span.colour)
            rest = rest[end:]
        return painted

    def tint(self, text: str, colour: str) -> str:
        """Return `text` in `colour`, if this screen has colours."""
        if not (text and colour and self.has_colour):
            return text
        return f"\x1b[{colour}m{text}\x1b[0m"


def write(text: str) -> None:
    """Write to stderr; if nobody can read progress any more, the work goes on."""
    stream = sys.stderr
    if stream is None:  # closed by the parent
        return
    # ValueError: closed in this process.
    with contextlib.suppress(OSError, ValueError):
        stream.write(text)
        stream.flush()


def _can_redraw() -> bool:
    """Whether stderr is an interactive terminal that can redraw."""
    try:
        if sys.stderr is None or not sys.stderr.isatty():
            return False
    except ValueError:
        return False
    # An agent gives its jobs a terminal too, and sets CI: its log shows each frame for ever.
    if os.environ.get("CI") or dialect_on(sys.stderr) is not None:
        return False
    # "dumb" knows no cursor movement (terminfo); without TERM nothing is known.
    return os.environ.get("TERM", "dumb") != "dumb"


def _above(count: int) -> str:
    """Return what wipes the `count` lines above the cursor (ECMA-48 CPL and ED)."""
    # A parameter of 0 means 1 to a terminal.
    if not count:
        return ""
    return f"\x1b[{count}F\x1b[J"


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
        # Where nobody has loaded it, no loop runs; loading it costs as much as a short diagnosis.
        if "asyncio" not in sys.modules:
            return False
        import asyncio

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


def late_teller() -> Teller[str]:
    """A teller of steps that shows none of work that takes less than two seconds."""
    return Teller(StepSource(LineKind.STATUS, quiet_s=_QUIET_S), group="ci-doctor: progress")
