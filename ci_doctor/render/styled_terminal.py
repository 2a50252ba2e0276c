# SPDX-License-Identifier: Apache-2.0
"""Pure. The width and the styles of a terminal that a report is rendered for."""

from ci_doctor.render.layout import wrap
from ci_doctor.render.safe_text import one_line


class StyledTerminal:
    """A terminal of `width` cells; without `colour` every style is plain text.

    Wrap text first and paint it then: an escape sequence takes no cells.
    """

    def __init__(self, width: int, *, colour: bool) -> None:
        self.width = width
        self._colour = colour

    def paint(self, text: str, style: str) -> str:
        """`text` in a style of rich, as "bold red"."""
        if not self._colour:
            return text
        # rich.style alone is 4 ms to import; rich.console would be 20.
        from rich.color import ColorSystem
        from rich.style import Style

        return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)

    def bold(self, text: str) -> str:
        """Titles, labels and the sentence of a finding."""
        return self.paint(text, "bold")

    def dim(self, text: str) -> str:
        """What is read last."""
        return self.paint(text, "dim")

    def path(self, text: str) -> str:
        """A file, on one line."""
        return self.paint(one_line(text), "cyan")

    def indented(self, text: str) -> list[str]:
        """`text` as lines that begin with two spaces."""
        return wrap(text, self.width, first="  ", rest="  ")
