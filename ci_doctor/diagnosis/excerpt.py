# SPDX-License-Identifier: Apache-2.0
"""Reads the lines around a place in a log, for a reader."""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.diagnosis.lines import clean_line
from ci_doctor.diagnosis.log_text import LogText, TextLine
from ci_doctor.model.cause import LogLine
from ci_doctor.model.facts.diagnose import LogLines
from ci_doctor.system.secrets.private_keys import first_words, without_key_lines

_BEFORE = 6
_AFTER = 9
_CONTEXT = 120


def excerpt_around(log: LogText, line: TextLine) -> LogLines:
    """`line` with at most 6 lines before it and 9 after it."""
    before = log.before(line, _BEFORE + _CONTEXT)
    lines = [*before, *log.after(line, _AFTER + _CONTEXT)]
    # Before it is cut: the lines around it tell what the last line of a key is.
    contents = without_key_lines(b"\n".join(each.content for each in lines)).split(b"\n")
    n_before = min(len(before), _BEFORE)
    shown = contents[len(before) - n_before : len(before) + _AFTER + 1]
    cleaned = [clean_line(each) for each in shown]
    # What each line of a process begins with would take the room of what it says.
    writer = cleaned[n_before].writer
    messages = [each.message if each.writer == writer else each.text for each in cleaned]
    messages[n_before] = messages[n_before] or cleaned[n_before].text
    return LogLines(
        file=log.name,
        first_line=line.number - n_before,
        lines=tuple(each.text for each in cleaned),
        marked=n_before,
        messages=tuple(messages),
    )


_LAST_LINES = 15
_FRAME_LINES = 4  # the innermost two frames: each a place and the code there
_LINES_AFTER = 3  # an exception's message may run on
_LONGEST_LINE = 500


class Excerpt(Struct, frozen=True, kw_only=True):
    """Neighbouring lines of a text without the empty ones.

    `line` and `end_line` are 1-based and inclusive; None if there are no lines, or if nobody has
    counted. `root` is the index in `lines` of the one nearest to the cause, None if there are none.
    """

    lines: tuple[str, ...] = ()
    line: int | None = None
    end_line: int | None = None
    root: int | None = None


def lines_around(
    text: str, place: LogLine | None, *, ends_traceback: bool = False, fatal: str | None = None
) -> Excerpt:
    """The lines of `text` that say why it ends, and the root line among them.

    place: where a diagnosis looks first; ends_traceback: it is the exception of one. fatal: a text whose last line is the root instead. An
    exception has its innermost frames before it and the rest of its message after it. Other root
    lines stand among the last 15 lines that are not empty, or in the middle of 15 others.
    """
    lines = [_shown(line) for line in text.split("\n")]
    number = None if place is None else place.line
    root = _root(lines, number, fatal)
    if root is None:
        return Excerpt()
    if ends_traceback and number is not None and root == number - 1:
        kept = _not_empty(lines, max(0, root - _FRAME_LINES), root + _LINES_AFTER)
    else:
        kept = _fifteen(_not_empty(lines, 0, len(lines) - 1), root)
    shown = [lines[index] for index in kept]
    return Excerpt(
        lines=tuple(shown),
        line=kept[0] + 1,
        end_line=kept[-1] + 1,
        root=kept.index(root),
    )


def marked(excerpt: Sequence[str], root: int | None, most: int) -> list[str]:
    """At most `most` lines of `excerpt`, `> ` before the one at `root`, two spaces before others."""
    # The last lines, unless the root stands before them: then it is in the middle.
    first = max(0, len(excerpt) - most)
    if root is not None:
        centred = max(0, root - most // 2)
        first = min(first, centred)
    end = min(len(excerpt), first + most)
    shown = []
    for index in range(first, end):
        mark = "> " if index == root else "  "
        shown.append(mark + excerpt[index])
    return shown


def _shown(line: str) -> str:
    return first_words(clean_line(line.encode()).text, _LONGEST_LINE)


def _root(lines: Sequence[str], number: int | None, fatal: str | None) -> int | None:
    """The index of the root line; None if all lines are empty."""
    if fatal is not None:
        for index in reversed(range(len(lines))):
            if fatal in lines[index]:
                return index
    if number is not None and lines[number - 1]:
        return number - 1
    for index in reversed(range(len(lines))):
        if lines[index]:
            return index
    return None


def _fifteen(kept: Sequence[int], root: int) -> list[int]:
    """The last 15 of `kept` if `root` is among them, else those around it."""
    last = list(kept[-_LAST_LINES:])
    if root in last:
        return last
    middle = kept.index(root)
    first = max(0, middle - _LAST_LINES // 2)
    return list(kept[first : first + _LAST_LINES])


def _not_empty(lines: Sequence[str], first: int, last: int) -> list[int]:
    """The indices from `first` to `last` of lines with something in them."""
    end = min(last + 1, len(lines))
    return [index for index in range(first, end) if lines[index]]
