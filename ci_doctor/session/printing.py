# SPDX-License-Identifier: Apache-2.0
"""Acts on streams: prints text as a terminal, a file or the log of a CI needs it. Cheap to import."""

import itertools
import os
import stat
import sys
from typing import TYPE_CHECKING, Literal, TextIO

from ci_doctor.system import clock

if TYPE_CHECKING:
    from ci_doctor.model.outcome import Report
    from ci_doctor.render.ci_log import Dialect, LogSection


# One of them is set in the log of a CI; outside of it nothing about dialects is loaded.
_VARIABLES = ("BUILDKITE", "GITHUB_ACTIONS", "GITLAB_CI")
_numbers = itertools.count(1)


def dialect_on(stream: TextIO | None) -> "Dialect | None":
    """The dialect of the CI in whose log `stream` ends; None if it does not, as far as one sees.

    A pipe leads there, and a terminal: Buildkite gives one to its jobs. A file does not.
    """
    if stream is None or not any(name in os.environ for name in _VARIABLES):
        return None
    from ci_doctor.render.ci_log import dialect_of

    dialect = dialect_of(os.environ)
    if dialect is None:
        return None
    try:
        mode = os.fstat(stream.fileno()).st_mode
        is_terminal = stream.isatty()
    # ValueError: closed in this process. io.UnsupportedOperation, of a stream in memory, is both.
    except (OSError, ValueError):
        return None
    if is_terminal or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        return dialect
    return None


def harmless(text: str, stream: TextIO | None) -> str:
    """`text` for `stream`, with nothing in it that acts on the log of a CI."""
    dialect = dialect_on(stream)
    if dialect is None:
        return text
    from ci_doctor.render.ci_log import defused

    return defused(text, dialect)


def print_framed(report: "Report", stream: TextIO, text: str, *, has_group: bool = False) -> None:
    """Print `text`, which is `report`'s, in a group of the log. Raises OSError.

    The lines of the group stand on stderr alone. If `stream` is stdout and leads elsewhere, nobody
    can say where they would stand, and only the annotations remain. has_group: a passing report
    needs no group of its own.
    """
    dialect = dialect_on(stream) if text else None
    if dialect is None:
        _write(stream, text)
        return
    from ci_doctor.render.ci_frame import Frame, frame, is_failing
    from ci_doctor.render.ci_log import defused

    shown = frame(report, dialect, key=_key(), token=os.urandom(16).hex(), epoch_s=clock.epoch())
    # The last group that is neither muted nor open is opened by Buildkite: that is the command's.
    if has_group and not is_failing(report):
        shown = Frame()
    body = defused(text, dialect)
    if stream is sys.stderr:
        # At once: nothing that another process prints comes between.
        _write(stream, shown.before + body + shown.after + shown.notes)
    elif _is_same(stream, sys.stderr):
        stream.flush()  # what was printed before belongs before the group
        _talk(shown.before)
        _write(stream, body)
        _talk(shown.after + shown.notes)
    else:
        _write(stream, body)
        if dialect_on(sys.stderr) is not None:
            _talk(shown.notes)


class LogGroup:
    """A closed group on stderr for what is long and rarely read; nothing outside of a CI's log."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun: LogSection | None = None

    def begin(self) -> None:
        """Begin it with the next line on stderr; further calls do nothing until `end`."""
        dialect = dialect_on(sys.stderr)
        if dialect is not None and self._begun is None:
            from ci_doctor.render.ci_log import LogSection, start_of

            self._begun = LogSection(self._title, _key())
            _talk(start_of(self._begun, dialect, clock.epoch()))

    def end(self) -> None:
        """End it, if it was begun."""
        dialect = dialect_on(sys.stderr)
        if dialect is not None and self._begun is not None:
            from ci_doctor.render.ci_log import end_of

            _talk(end_of(self._begun, dialect, clock.epoch()))
        self._begun = None


def begin_output(title: str) -> bool:
    """Begin a group for the output of another program, where a group has no end of its own.

    Returns whether `title` was printed.
    """
    dialect = dialect_on(sys.stderr)
    if dialect is None:
        return False
    from ci_doctor.render.ci_log import output_of_another

    line = output_of_another(title, dialect)
    _talk(line)
    return bool(line)


def open_last_group() -> None:
    """Open the group in which stderr is, where that is possible."""
    dialect = dialect_on(sys.stderr)
    if dialect is not None:
        from ci_doctor.render.ci_log import opened_again

        _talk(opened_again(dialect))


def _key() -> str:
    """Another one for each group of a job, in which several of our processes may run."""
    return f"{os.getpid()}_{next(_numbers)}"


def _is_same(one: TextIO, other: TextIO | None) -> bool:
    if other is None:
        return False
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def _talk(text: str) -> None:
    """Write to stderr; the work goes on if nobody can read it."""
    try:
        if text and sys.stderr is not None:
            _write(sys.stderr, text)
    except (OSError, ValueError):
        return


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()


PrintedForm = Literal["text", "json", "sarif", "github"]


def print_report(
    report: "Report",
    stream: TextIO,
    form: PrintedForm,
    text: str | None = None,
    *,
    page: str | None = None,
    has_group: bool = False,
) -> None:
    """Print `report` on `stream`; `text` takes the place of the rendered text. Raises OSError.

    page: where the report lies, for the last line of the rendered text. has_group: it stands in a
    group of the log already.
    """
    from ci_doctor.session.delivery import text_for, write_data

    if form == "json":
        from ci_doctor.render import json

        write_data(stream, json.render(report))
    elif form == "sarif":
        from ci_doctor.render import lint_report as sarif

        write_data(stream, sarif.render(report))
    elif form == "github":
        from ci_doctor.render.ci_frame import annotations

        write_data(stream, annotations(report))
    else:
        shown = text_for(report, stream, page) if text is None else text
        print_framed(report, stream, shown, has_group=has_group)


def say(text: str) -> None:
    """Print on stderr. Talk is not evidence: nothing depends on whether anybody can read it."""
    try:
        if sys.stderr is not None:
            _write(sys.stderr, harmless(text, sys.stderr))
    except (OSError, ValueError):
        return


def say_line(sentence: str) -> None:
    """Print one line of ours on stderr; what it quotes cannot end it."""
    from ci_doctor.render.formatting import printable

    line = printable(sentence).replace("\n", " ")
    say(f"ci-doctor: {line}\n")
