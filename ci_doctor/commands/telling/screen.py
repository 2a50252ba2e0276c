# SPDX-License-Identifier: Apache-2.0
"""Acts on stderr: lines that stay, and below them lines that a terminal redraws in place."""

import contextlib
import os
import shutil
import sys
from collections.abc import Sequence

from ci_doctor.commands.telling.line import Span
from ci_doctor.session.log_stream import dialect_on, harmless


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
