# SPDX-License-Identifier: Apache-2.0
"""Acts on stderr: shows progress as plain lines, the same on a terminal and in a log."""

import os
import re
from collections.abc import Sequence
from typing import Self

from ci_doctor.render.formatting import printable
from ci_doctor.session.printing import LogGroup, begin_output, say
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor

# Seconds. Work that ends soon needs no word, and a log keeps each status line.
QUIET_S = 2.0
_EVERY_S = 5.0
_LINE_END = re.compile(r" *\n\s*")


class Teller:
    """Call it with a status, which is shown once in a while, or `say` what stays, inside `with`.

    All that it shows is one harmless line without secrets. A stderr that is closed, full or not read any
    more stops nothing.
    """

    def __init__(self, redactor: Redactor | None = None, *, group: str = "") -> None:
        """`group` is the title of its group in the log of a CI, empty for none.

        `redactor` knows the secrets of the command. Without it those of our own environment are
        taken out.
        """
        self._group = LogGroup(group) if group else None
        self._redactor = redactor or Redactor.from_environment(os.environ)
        self._status_due = clock.now() + QUIET_S
        self._has_kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_kept:
            say("\n")  # between the progress and the report
        self._end_group()

    def __call__(self, status: str) -> None:
        """Show how things stand now, unless that was done a moment ago."""
        now = clock.now()
        if now >= self._status_due:
            self._keep([self._one_safe_line(status)])
            self._status_due = now + _EVERY_S

    def say(self, *lines: str) -> None:
        """Show sentences."""
        # A status right after a sentence adds nothing to it.
        self._status_due = max(self._status_due, clock.now() + QUIET_S)
        self._keep([self._one_safe_line(line) for line in lines])

    def warn(self, text: str) -> None:
        """Show a warning."""
        self.say(f"warning: {text}")

    def output(self, label: str, text: str) -> None:
        """Show lines of `text` that a program wrote, each behind `label`."""
        # Only values, as in the kept log: our names for secrets are plain words to a program.
        hide = self._redactor.without_values
        # Again behind the escape sequences: one in the middle of a secret hid it from the first look.
        safe = hide(printable(hide(text)))
        self._keep([label + line for line in safe.split("\n")])

    def hand_over(self, title: str) -> None:
        """Show `title` and end the group: what follows is the output of another program.

        Our own lines stand between its lines from now on.
        """
        self._end_group()
        if not begin_output(self._one_safe_line(title)):
            self.say(title)

    def _end_group(self) -> None:
        if self._group is not None:
            self._group.end()
        self._group = None

    def _one_safe_line(self, text: str) -> str:
        hide = self._redactor.text
        return _LINE_END.sub(" ", hide(printable(hide(text))))

    def _keep(self, lines: Sequence[str]) -> None:
        self._has_kept = True
        if self._group is not None:
            self._group.begin()
        say("".join(f"{line}\n" for line in lines))


def late_teller() -> Teller:
    """A teller of steps that shows none of work that takes less than two seconds."""
    return Teller(group="ci-doctor: progress")
