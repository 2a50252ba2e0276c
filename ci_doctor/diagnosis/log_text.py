# SPDX-License-Identifier: Apache-2.0
"""Reads logs of any size: as blocks for a scan, as lines around a place, a line as a reader sees it; unpacks those that are packed."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from io import RawIOBase
from typing import BinaryIO, Final

from msgspec import Struct, structs

from ci_doctor.model.cause import LogLine
from ci_doctor.model.facts.diagnose import LogLines
from ci_doctor.system.secrets.private_keys import (
    LONGEST_KEY,
    first_words,
    without_key_lines,
    without_keys,
)

# The columns of `gh run view --log`: job, step, then the line.
_COLUMNS: Final = re.compile(r"[^\t]{1,80}\t[^\t]{1,80}\t(?=\ufeff?\d{4}-\d\d-\d\dT)")
# GitHub, GitLab (with a stream `00O` after it), Jenkins' timestamper, a task of Taskcluster.
_ISO_TIME: Final = re.compile(
    r"\ufeff?(?:\[task(?:cluster)?(?::\w+)? )?\[?"
    r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d))\]?"
    r"(?: \d\d[OE]\+?)?(?: |$)"
)
# AppVeyor's `[00:01:23] `, TeamCity's `[12:30:01]W:	 [Step 1/3] `, Jenkins' elapsed `00:01:23.456  `.
_CLOCK: Final = re.compile(
    r"\[(?P<time>\d\d:\d\d:\d\d)\](?:[WEFi ]?:\t? ?(?:\[[^\]]{1,60}\] ?)?)? ?"
    r"|(?P<elapsed>\d\d:\d\d:\d\d(?:\.\d{1,3})?)  ?(?! )"
)
# Mozilla's mozharness: `21:47:57     INFO -  `.
_MOZHARNESS: Final = re.compile(
    r"(?P<time>\d\d:\d\d:\d\d) +(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL) - {0,2}"
)
# A step of `docker buildx build --progress=plain`: `#12 4.512 `.
_BUILDKIT: Final = re.compile(r"#\d{1,4} \d{1,6}\.\d{1,3} ")
# GitHub's, below another system's stamp: a job that prints the log of another one.
_GITHUB_TIME: Final = re.compile(r"\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z ")
_STAMPS: Final = (_COLUMNS, _ISO_TIME, _GITHUB_TIME, _MOZHARNESS, _CLOCK, _BUILDKIT)


def without_stamps(text: str) -> tuple[str, str | None]:
    """The line `text` without what its CI system put before it, and the first time in that."""
    time = None
    for stamp in _STAMPS:
        match = stamp.match(text)
        if match is not None:
            groups = match.groupdict()
            time = time or groups.get("time") or groups.get("elapsed")
            text = text[match.end() :]
    return text, time


_MOST_PREFIXES: Final = 6
# Longer than any name of a machine or a service with what follows it.
_LONGEST_NAME: Final = 120
_LEVEL: Final = r"(?P<level>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
_DATE: Final = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_TIME: Final = rf"(?P<time>{_DATE})"
_PLACE: Final = r"(?P<place>[\w./<>-]+:\d+)"

# By what a line begins with, so that few of them are tried.
_PARENTHESIS: Final = (
    # vLLM and Ray: `(EngineCore_DP0 pid=7)`, `(RayWorkerWrapper pid=7, ip=10.0.0.1)`, `(pid=7)`.
    r"(?P<writer>\((?:[A-Za-z_][\w.<>:-]*[ ,:]+)?(?:\w+=[^\s,)]+(?:, ?| |(?=\))))+\)) ?",
    # Ray: `(raylet)`, `(raylet, ip=10.0.0.1)`, `(autoscaler +1m2s)`.
    r"(?P<writer>\((?:raylet|gcs_server|autoscaler)(?:,? [^)]{1,60})?\)) ?",
)
_BRACKET_LETTER: Final = (
    # torchrun: `[rank3]:`, `[default3]:`; kubectl: `[pod/server-0/vllm] `.
    r"(?P<writer>\[(?:rank|default)\d+\]:|\[pod/[^\]\s]{1,120}\]) ?",
    # The C++ of torch: `[E128 03:24:44.123456789 ProcessGroupNCCL.cpp:629] `.
    rf"\[(?P<level>[IWEFC])(?:\d{{3,4}} (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?)(?: \d+)?)? {_PLACE}\] ?",
)
_BRACKET_DATE: Final = (
    # SGLang: `[2026-01-28 15:59:42 DP0 TP3] `.
    rf"\[{_TIME}(?P<writer>(?: (?:DP|TP|PP|EP|ATTN|MOE|CP)\w{{1,6}})+)\] ?",
    # The C++ of Ray: `[2026-01-28 15:59:42,187 E 7 7] logging.cc:484: `.
    rf"\[{_TIME} (?P<level>[DIWEFC]) \d+ \d+\] (?:\([\w-]+\) )?(?:{_PLACE}: ?)?",
    # gunicorn: `[2026-01-28 15:59:42 +0000] [7] [ERROR] `.
    rf"\[{_TIME} [+-]\d{{4}}\] \[\d+\] \[{_LEVEL}\] ?",
    # DeepSpeed: `[2026-01-28 15:59:42,045] [ERROR] [launch.py:315:main] `, and each field in
    # brackets as loggers are often set up: `[2026-01-28 15:59:42,820] [ERROR] [MainThread] [x] >>> `.
    rf"\[{_TIME}\] ?\[{_LEVEL} *\] ?(?:\[[^\]]{{1,80}}\] ?){{0,3}}(?:>>> ?|: )?",
    # LMCache: `[2026-01-28 15:59:42,123] LMCache ERROR: `.
    rf"\[{_TIME}\] (?:[\w.]+ )?{_LEVEL}: ?",
    rf"\[{_TIME}\] ?",
)
_BRACKET_OTHER: Final = (
    # dynamo's number of a compilation, after torch's own prefix: `[14/1] `.
    r"\[\d+/\d+(?:_\d+)?\] ?",
    # The kernel's seconds: `[12345.678901] `.
    r"\[ *\d{1,8}\.\d{6}\] ?",
)
_DATE_FIRST: Final = (
    # loguru: `2026-01-28 15:59:42.123 | ERROR    | server.app:run:12 - `.
    rf"{_TIME} *\| *{_LEVEL} *\| *(?P<place>[\w.<>:-]+) - ?",
    # Ray: `2026-01-28 15:59:42,676 ERROR worker.py:405 -- `.
    rf"{_TIME} {_LEVEL} {_PLACE} -- ?",
    # logging's usual formats: `2026-01-28 15:59:42,123 - name - ERROR - `, and the level first.
    rf"{_TIME} - (?:[\w.<>-]+ - ){{1,3}}{_LEVEL} - ?",
    rf"{_TIME} - {_LEVEL} - (?:[\w.<>:-]+ - )?",
    # Rust's tracing and others: `2026-01-28T15:59:42.123456Z ERROR router::worker: `.
    rf"{_TIME} +\[?{_LEVEL}\]?:? +(?:\[?(?P<place>[\w.<>/-]+(?:::?[\w.<>]+)+)\]?:? )?",
    # TensorFlow and XLA: `2026-01-28 15:59:42.123456: E external/x/y.cc:123] `.
    rf"{_TIME}: (?P<level>[IWEF]) {_PLACE}\] ?",
)
_CAPITALS: Final = (
    # vLLM: `ERROR 01-28 15:59:42 [core.py:935] `; before 0.8 without the left bracket.
    rf"{_LEVEL} (?P<time>\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?) \[?{_PLACE}\]? ?",
    rf"{_LEVEL} \[{_PLACE}\] ?",
    # A cloud's log viewer: `ERROR 2026-01-28T15:59:42.209110975Z `.
    rf"{_LEVEL} {_TIME} ",
    # uvicorn: `ERROR:    `; logging's default: `ERROR:name:`.
    r"(?P<level>WARNING):  ",
    rf"{_LEVEL}:(?:     ?|(?P<place>[\w.]+):)",
    # pytest's captured log: `ERROR    vllm:core.py:12 `.
    rf"{_LEVEL} +(?P<place>[\w.]+:[\w.]+\.py:\d+) ",
)
# glog, absl, klog and torch's Python: `E0317 07:53:56.045000 2265 torch/_guards.py:283] `.
_LETTER_DIGIT: Final = (
    rf"(?P<level>[IWEFC])\d{{3,4}} (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?) +(?:\d+ )?{_PLACE}\] ?",
)
# NCCL: `host:301:305 [0] NCCL INFO `, and `host:301:305 [0] misc/nvmlwrap.cc:187 NCCL WARN `, of
# which the last words stay.
_NCCL: Final = (
    r"(?P<writer>[\w.-]+:\d+:\d+) \[-?\d+\] NCCL (?P<level>INFO|TRACE) ",
    r"(?P<writer>[\w.-]+:\d+:\d+) \[-?\d+\] (?:[\w./]+:\d+ )?(?=NCCL WARN)",
)
# The system's log: `Jan 28 15:59:42 host kernel: `.
_MONTH: Final = (r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) [\w.-]+ [\w./-]+(?:\[\d+\])?: ?",)
# docker compose: `vllm-1  | `.
_SERVICE: Final = (r"(?P<writer>[A-Za-z][\w.-]{0,39}) +\| ?",)
# tqdm leaves its bar on the line on which something else is printed next.
_BAR: Final = r"[^|\n]{0,120}\d{1,3}%\|[^|\n]{0,300}\| *[\d.]+[^\[\n]{0,20}\[[^\]\n]{0,120}\]"


class CleanLine(Struct, frozen=True, kw_only=True):
    """One line without escapes.

    text: without the stamp of the CI system. message: without all prefixes of writers and loggers
    too, with its indentation. writer: the prefixes that tell processes apart, joined; None without
    one. level: the logger's word. time: as it stands in the line. place: where in the program the
    logger was called.
    """

    text: str
    message: str
    writer: str | None = None
    level: str | None = None
    time: str | None = None
    place: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """What a rule's regex is tried on."""
        if self.text == self.message:
            return (self.text,)
        return (self.message, self.text)


def without_prefixes(line: str) -> CleanLine:
    """`line`, which has no escape sequences and no stamp, taken apart."""
    message = line
    writers: list[str] = []
    fields: dict[str, str] = {}
    for _ in range(_MOST_PREFIXES):
        match = _prefix(message)
        if match is None:
            break
        message = message[match.end() :]
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        if "writer" in groups:
            writers.append(groups.pop("writer").strip())
        fields = groups | fields
    return CleanLine(
        text=line,
        message=message,
        writer=" ".join(writers) or None,
        level=_LEVEL_OF_LETTER.get(fields.get("level", ""), fields.get("level")),
        time=fields.get("time"),
        place=fields.get("place"),
    )


_LEVEL_OF_LETTER: Final = {
    "D": "DEBUG",
    "I": "INFO",
    "W": "WARNING",
    "E": "ERROR",
    "F": "FATAL",
    "C": "CRITICAL",
}


def _prefix(text: str) -> re.Match[str] | None:
    """The prefix with which `text` begins."""
    if text[:1].isspace() or not text:
        return None
    for pattern in _patterns(text):
        match = _compiled(pattern).match(text)
        if match is not None:
            return match
    return _compiled(_BAR).match(text) if "%|" in text else None


def _patterns(text: str) -> tuple[str, ...]:
    """The prefixes that `text` may have, by its first characters."""
    first, second = text[0], text[1:2]
    if first == "(":
        return _PARENTHESIS
    if first == "[" and second.isalpha():
        return _BRACKET_LETTER
    if first == "[":
        return _BRACKET_DATE if text[5:6] and text[5:6] in "-/" else _BRACKET_OTHER
    if first.isdigit():
        return _DATE_FIRST if text[4:5] in "-/" else ()
    named = _of_name(text)
    # The name of a service or of a machine may have capitals too.
    if text[:2].isupper() and second.isalpha():
        return (*_CAPITALS, *named)
    return (*_LETTER_DIGIT, *named) if second.isdigit() and first in _LEVEL_OF_LETTER else named


def _of_name(text: str) -> tuple[str, ...]:
    """The prefixes that begin with a name, of which most lines hold no sign."""
    start = text[:_LONGEST_NAME]
    if " NCCL " in start:
        return _NCCL
    if "|" in start:
        return _SERVICE
    return _MONTH if text[3:4] == " " and text[9:10] == ":" else ()


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # When it is needed first: most logs hold two or three of these forms.
    return re.compile(pattern)


# A sentence longer than this is data; a regex need not read it.
LONGEST_TEXT: Final = 2000
# CSI and OSC sequences (ECMA-48), the Buildkite agent's `\x1b_bk;t=…\x07` (an APC), lone controls;
# `nl`, which archives of Travis' macOS logs hold where a line began with a carriage return.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]_P^X][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|^nl(?=\W|$)|\x1b[()][0-9A-Z]|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1f\x7f]"
)


def clean_line(raw: bytes) -> CleanLine:
    """The words of the line `raw`, whose newline is gone; at most 2,000 characters of them."""
    # A progress bar overwrites its own line: what was on screen last is what counts.
    shown = raw.rstrip(b"\r").rpartition(b"\r")[2]
    plain = _ESCAPES.sub("", shown[: 4 * LONGEST_TEXT].decode(errors="replace"))
    plain, time = without_stamps(plain)
    clean = without_prefixes(first_words(plain, LONGEST_TEXT).rstrip())
    return structs.replace(clean, time=time) if time else clean


# --- logs of any size, as blocks for a scan and as lines around a place; packed ones too ---


BLOCK_BYTES = 4 * 1024 * 1024
# A longer line is cut in excerpts: a log may be one line of a gigabyte.
LONGEST_LINE_BYTES = 64 * 1024
# How far the neighbours of a line are looked for: first near it, then beyond a long line.
_WINDOWS_BYTES = (256 * 1024, 16 * 1024 * 1024)
# Two blocks of one line share this much, so that a hit has its surroundings in one of them.
_SHARED_BYTES = 16 * 1024


class Block(Struct, frozen=True):
    """A part of a log: whole lines, or a part of a line that is longer than a block.

    offset: in bytes from the start of the log. A match counts if it begins in
    `content[first:last]`; what is before and after it stands in other blocks too.
    """

    offset: int
    content: bytes
    first: int
    last: int


class TextLine(Struct, frozen=True):
    """One line without its newline, or a part of one.

    number: of the line, from 1. offset: of `content` in the log. content: at most 64 KiB.
    """

    number: int
    offset: int
    content: bytes


class LogText:
    """A log as UTF-8 bytes in a seekable file, without the private keys that it holds.

    A key is many lines. An excerpt may hold some of them, of which nobody knows any more what they are.

    name: what to call it in a report. start and end: offsets of what counts of the file, which may
    grow while it is read. problem: why a part of the log is missing, empty if none is.
    """

    def __init__(
        self, name: str, file: BinaryIO | RawIOBase, end: int, *, start: int = 0, problem: str = ""
    ) -> None:
        self.name = name
        self.problem = problem
        # Called with the bytes that `blocks` has handed out so far.
        self.on_read: Callable[[int], None] | None = None
        self._start = start
        self._end = end
        self._descriptor = file.fileno()
        self._file = file  # kept open
        self._counted_to = start
        self._newlines = 0

    @property
    def size(self) -> int:
        """Bytes of text."""
        return self._end - self._start

    def blocks(self) -> Iterator[Block]:
        """All of the log from the start, in blocks of about 4 MiB."""
        offset = self._start
        rest = b""
        first = 0
        while piece := self._read(offset + len(rest), BLOCK_BYTES):
            content = rest + piece
            end = content.rfind(b"\n") + 1
            last = end
            if end == 0 and len(content) >= BLOCK_BYTES:
                # One line. What stands at the border stands whole in one of the two blocks.
                end = len(content) - _SHARED_BYTES
                last = end + _SHARED_BYTES // 2
            if last > first:
                yield from self._block(offset, content, first, last)
                first = last - end
            rest = content[end:]
            offset += end
        # The end, or the log was cut off while we read it.
        if len(rest) > first:
            yield from self._block(offset, rest, first, len(rest))

    def _block(self, offset: int, content: bytes, first: int, last: int) -> Iterator[Block]:
        block = Block(offset, content, first, last)
        yield block
        self.line_number(block, last)
        if self.on_read is not None:
            self.on_read(offset + last - self._start)

    def line_number(self, block: Block, position: int) -> int:
        """The number of the line at `block.content[position]`; no call goes back in the log."""
        counted = max(0, self._counted_to - block.offset)
        self._newlines += block.content.count(b"\n", counted, position)
        self._counted_to = max(self._counted_to, block.offset + position)
        return self._newlines + 1

    def before(self, line: TextLine, most: int) -> list[TextLine]:
        """At most `most` lines that stand before `line`, in the order of the log."""
        if most <= 0:
            return []
        content = b""
        start = line.offset
        for window in _WINDOWS_BYTES:
            start = max(self._start, line.offset - window)
            content = self._read(start, line.offset - start)
            if b"\n" in content[:-1]:
                break
        end = content.rfind(b"\n")
        if end < 0:
            return []
        pieces = content[:end].split(b"\n")
        # The window begins inside a line.
        if start > self._start:
            cut = pieces.pop(0)
            if not pieces:
                # Of a line that is longer than the window, its end.
                part = cut[-LONGEST_LINE_BYTES:]
                return [TextLine(line.number - 1, start + len(cut) - len(part), part)]
            start += len(cut) + 1
        skipped = pieces[: max(0, len(pieces) - most)]
        start += sum(len(piece) + 1 for piece in skipped)
        kept = pieces[len(skipped) :]
        return _lines(kept, line.number - len(kept), start)

    def after(self, line: TextLine, most: int) -> list[TextLine]:
        """`line` itself and at most `most` lines that follow it."""
        from_ = line.offset + len(line.content)
        content = b""
        newline = -1
        for window in _WINDOWS_BYTES:
            content = self._read(from_, window)
            newline = content.find(b"\n")
            if newline >= 0:
                break
        # A newline at the very end begins no line.
        if most <= 0 or newline < 0 or from_ + newline + 1 >= self._end:
            return [line]
        pieces = content[newline + 1 :].split(b"\n", most)
        if not pieces[-1]:
            pieces.pop()
        following = _lines(pieces[:most], line.number + 1, from_ + newline + 1)
        return [line, *following]

    def is_unfinished(self, line: TextLine) -> bool:
        """Whether the log ends with `line`, without a newline."""
        return line.offset + len(line.content) >= self._end

    def tail(self, most: int) -> list[TextLine]:
        """The last `most` lines; `blocks` was read to the end before."""
        start = max(self._start, self._end - _WINDOWS_BYTES[0])
        content = self._read(start, self._end - start)
        unfinished = content.rpartition(b"\n")[2]
        kept = unfinished[-LONGEST_LINE_BYTES:]
        end = TextLine(self._newlines + 1, start + len(content) - len(kept), kept)
        if not unfinished:
            return self.before(end, most)
        return [*self.before(end, most - 1), end]

    def _read(self, offset: int, most: int) -> bytes:
        """The bytes at `offset`, with blanks for what is of a private key.

        What is before and after them tells what a key is: so that is read, too.
        """
        first = max(self._start, offset - LONGEST_KEY)
        wanted = offset - first + max(0, min(most, self._end - offset))
        reach = max(0, min(wanted + LONGEST_KEY, self._end - first))
        content = os.pread(self._descriptor, reach, first)
        return without_keys(content)[offset - first : wanted]


def _lines(pieces: list[bytes], number: int, offset: int) -> list[TextLine]:
    lines = []
    for piece in pieces:
        lines.append(TextLine(number, offset, piece[:LONGEST_LINE_BYTES]))
        number += 1
        offset += len(piece) + 1
    return lines


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
    cleaned = [clean_line(line.encode()).text for line in text.split("\n")]
    lines = [first_words(each, _LONGEST_LINE) for each in cleaned]
    number = None if place is None else place.line
    root = _root(lines, number, fatal)
    if root is None:
        return Excerpt()
    kept = [index for index, line in enumerate(lines) if line]
    middle = kept.index(root)
    if ends_traceback and number is not None and root == number - 1:
        kept = [each for each in kept if -_FRAME_LINES <= each - root <= _LINES_AFTER]
    else:
        first = max(0, middle - _LAST_LINES // 2)
        if middle >= len(kept) - _LAST_LINES:
            first = max(0, len(kept) - _LAST_LINES)
        kept = kept[first : first + _LAST_LINES]
    return Excerpt(
        lines=tuple(lines[index] for index in kept),
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


def _root(lines: Sequence[str], number: int | None, fatal: str | None) -> int | None:
    """The index of the root line; None if all lines are empty."""
    last = range(len(lines) - 1, -1, -1)
    fatals = [index for index in last if fatal is not None and fatal in lines[index]]
    if not fatals and number is not None and lines[number - 1]:
        return number - 1
    return next(iter(fatals), next((index for index in last if lines[index]), None))
