# SPDX-License-Identifier: Apache-2.0
"""Tells on stderr what is waited for: one live line on a terminal, a plain line every few seconds elsewhere."""

import contextlib
import os
import shutil
import sys
from types import TracebackType
from typing import Self

import click

from ci_doctor.services.wait.waiting import WaitProgress

# A short wait needs no talk, and a log is kept: seconds.
_QUIET_S = 2.0
_EVERY_S = 5.0


class WaitLines:
    """Give it to a wait as its callback, inside `with`: the live line must be wiped before the report is shown."""

    def __init__(self) -> None:
        self._live = (
            sys.stderr is not None and sys.stderr.isatty()
        )  # None: closed by whoever started us
        self._shown = False
        self._next_s = _QUIET_S

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            _say("\r\x1b[K")

    def __call__(self, progress: WaitProgress) -> None:
        """Show how it stands, if it is time to."""
        if progress.waited_s < self._next_s:
            return
        text = f"waiting for {progress.name}, {progress.waited_s:.0f} s"
        text += f": {progress.answer}" if progress.answer else ""
        if self._live:
            self._shown = True
            _say(f"\r\x1b[K{_clipped(text)}")
        else:
            self._next_s = progress.waited_s + _EVERY_S
            _say(f"{_printable(text)}\n")


def _clipped(text: str) -> str:
    from ci_doctor.render.layout import clip

    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        columns = shutil.get_terminal_size((80, 24)).columns
    return clip(_printable(text), max(20, (columns or 80) - 1))


def _printable(text: str) -> str:
    from ci_doctor.render.safe_text import one_line

    return one_line(text)


def _say(text: str) -> None:
    """Talk is not evidence: where nobody listens any more, the wait goes on."""
    with contextlib.suppress(OSError):
        click.echo(text, nl=False, err=True, color=True)
