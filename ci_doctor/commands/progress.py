# SPDX-License-Identifier: Apache-2.0
"""Tells on stderr how an experiment goes: one live line on a terminal, plain lines elsewhere."""

import contextlib
import shutil
import sys
from types import TracebackType
from typing import Self

import click

from ci_doctor.commands.live import event_line
from ci_doctor.correctness.attempt import ExperimentProgress
from ci_doctor.render.layout import wrap
from ci_doctor.system import clock

# Plain lines go into a log that is kept: one for the last answer, and for others not more often than this (seconds).
QUIET_S = 2.0


class ProgressLines:
    """Give it to an experiment as its callback, inside `with`: a live line must be wiped before the report is shown."""

    def __init__(self) -> None:
        self._live = (
            sys.stderr is not None and sys.stderr.isatty()
        )  # None: closed by whoever started us
        self._shown = 0
        self._last = clock.now()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wipe()

    def __call__(self, progress: ExperimentProgress) -> None:
        """Show what happened."""
        if progress.note:
            self._line(self._wrapped(progress.note), keep=True)
        elif progress.event is not None:
            self._line(f"{progress.start}  {event_line(progress.event)}", keep=True)
        elif self._live or self._due(progress):
            self._line(
                f"{progress.start}  {progress.answers}/{progress.requests} answers",
                keep=not self._live,
            )

    def _wrapped(self, note: str) -> str:
        """A sentence between whose words a terminal breaks; a log breaks none."""
        return (
            "\n".join(wrap(note, shutil.get_terminal_size().columns, rest="  "))
            if self._live
            else note
        )

    def _due(self, progress: ExperimentProgress) -> bool:
        return progress.answers == progress.requests or clock.now() - self._last > QUIET_S

    def _line(self, text: str, *, keep: bool) -> None:
        self._wipe()
        self._last = clock.now()
        _say(text + "\n" if keep else text)
        self._shown = 0 if keep else len(text)

    def _wipe(self) -> None:
        if self._shown:
            _say("\r" + " " * self._shown + "\r")
            self._shown = 0


def _say(text: str) -> None:
    """Talk is not evidence: where nobody listens any more, the experiment goes on."""
    with contextlib.suppress(OSError):
        click.echo(text, nl=False, err=True)
