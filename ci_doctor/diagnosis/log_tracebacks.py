# SPDX-License-Identifier: Apache-2.0
"""Reads the tracebacks of a log, and tells causes from what follows and from what was tolerated."""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from ci_doctor.diagnosis.exception_chain import chains, root_of
from ci_doctor.diagnosis.exception_line import exception_name, is_exception
from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.diagnosis.standing import TOLERATED_LEVELS, ExceptionStanding
from ci_doctor.diagnosis.traceback import Traceback, TracebackReader

# Lines of a traceback that are read; a deep recursion prints more, and repeats itself.
_MOST_LINES = 400
# Between the tracebacks of a chain stand the rest of a message and two empty lines.
_LINES_AFTER = 40
# Ray prints the same line of many workers once.
_REPEATED = re.compile(r" \[repeated \d+x across cluster\].*")
# What a program says when it goes on in spite of an exception.
_TOLERATED = re.compile(
    r"\(ignored\)|\b(?:will be|was|is being) ignored\b|\bignoring\b|Exception ignored in"
    r"|\bfall(?:ing|s|en)? ?back\b|\bretry(?:ing)?\b|\bwill retry\b|\bskipping\b|\bcontinuing\b"
    r"|--- Logging error ---|never retrieved|Failed to import [\w.]+ with",
    re.IGNORECASE,
)
# What a server says that answers a request with an error.
_ANSWERED = re.compile(
    r"Exception in ASGI application|Exception on /\S* \[[A-Z]+\]|Error handling request"
    r"|Internal Server Error:|Error (?:in|while) (?:pre)?(?:processing|handling) "
    r"|Error in .{0,30}(?:stream|completion|chat|embedding|request)",
)
# What a server says when the exception ends it.
_FATAL = re.compile(
    r"hit an exception|fatal error|failed to start|background task failed|\bWorkerProc failed\b"
    r"|Unhandled (?:error|exception)|Uncaught exception",
    re.IGNORECASE,
)


class ExceptionLine(Struct, frozen=True, kw_only=True):
    """The exception of a traceback in a log; `files` are those of its frames, innermost last."""

    line: TextLine
    clean: CleanLine
    standing: ExceptionStanding
    files: tuple[str, ...]


def exception_lines(
    log: LogText, headers: Iterable[TextLine], points: Mapping[int, int]
) -> dict[int, ExceptionLine]:
    """By offset the exceptions of the tracebacks that begin at `headers`, which are in order.

    `points` are those of the rules that match lines, by the offsets of these.
    """
    exceptions: dict[int, ExceptionLine] = {}
    read_to = -1
    for header in headers:
        if header.offset <= read_to:
            continue
        before = log.before(header, 1)
        lines = [*before, *log.after(header, _MOST_LINES)]
        for exception, last in _read(lines, points):
            if not _is_cut(exception, log):
                exceptions[exception.line.offset] = exception
            read_to = max(read_to, last)
    return _without_repetitions(exceptions)


def _is_cut(exception: ExceptionLine, log: LogText) -> bool:
    """Whether the log ends within the name of `exception`: `Val` may have become any word."""
    text = exception.clean.message.strip(" |")
    if ":" in text or is_exception(text, 0, is_certain=False):
        return False
    return log.is_unfinished(exception.line)


def _without_repetitions(exceptions: Mapping[int, ExceptionLine]) -> dict[int, ExceptionLine]:
    """`exceptions` of which those that repeat an earlier one follow from it.

    Processes that work together often fail alike, and a parent prints what its child has printed.
    """
    unlike: dict[int, ExceptionLine] = {}
    texts: set[str] = set()
    for offset, exception in sorted(exceptions.items()):
        text = _REPEATED.sub("", exception.clean.message).strip(" |")
        standing = exception.standing
        if text in texts:
            standing = ExceptionStanding.CONSEQUENCE
        elif standing.explains:
            texts.add(text)
        unlike[offset] = structs.replace(exception, standing=standing)
    return unlike


def _read(
    lines: Sequence[TextLine], points: Mapping[int, int]
) -> Iterable[tuple[ExceptionLine, int]]:
    """The exceptions in `lines`, each with the offset up to which lines were read."""
    reader = TracebackReader()
    cleaned: list[CleanLine] = []
    texts: list[str] = []
    last_ended = 0
    for index, line in enumerate(lines):
        clean = clean_line(line.content)
        cleaned.append(clean)
        texts.append(clean.text)
        count = len(reader.complete)
        reader.read(index, clean)
        if len(reader.complete) > count:
            last_ended = index
        if last_ended and not reader.has_begun and index > last_ended + _LINES_AFTER:
            break
    end = lines[len(texts) - 1].offset
    for chain in chains(reader.complete):
        root = root_of(chain, texts, lambda index: points.get(lines[index].offset, 0))
        for traceback in chain:
            exception = ExceptionLine(
                line=lines[traceback.exception],
                clean=cleaned[traceback.exception],
                standing=_standing(traceback, traceback is root, cleaned),
                files=traceback.files,
            )
            yield exception, end


def _standing(traceback: Traceback, is_root: bool, lines: Sequence[CleanLine]) -> ExceptionStanding:
    if traceback.is_pointer or not is_root:
        return ExceptionStanding.CONSEQUENCE
    exception = lines[traceback.exception]
    around = _words_around(traceback, lines)
    if exception.level in TOLERATED_LEVELS or any(map(_TOLERATED.search, around)):
        return ExceptionStanding.TOLERATED
    if _is_warning(exception):
        return ExceptionStanding.TOLERATED
    if any(map(_ANSWERED.search, around)):
        return ExceptionStanding.ANSWERED
    if any(map(_FATAL.search, around)):
        return ExceptionStanding.FATAL
    return ExceptionStanding.CAUSE


def _is_warning(exception: CleanLine) -> bool:
    """Whether it is a class of warnings, which a library may print with the frames."""
    name = exception_name(exception.message.lstrip(" |"))
    return name is not None and name.endswith("Warning")


def _words_around(traceback: Traceback, lines: Sequence[CleanLine]) -> list[str]:
    """What its program said of an exception: before the traceback, and on the line after it."""
    header = lines[traceback.start]
    first = max(0, traceback.start - 1)
    before = lines[first : traceback.start]
    after = lines[traceback.exception + 1 : traceback.exception + 2]
    own = filter(lambda line: _is_of_same_record(line, header), (*before, *after))
    return [header.text, *(line.text for line in own)]


def _is_of_same_record(line: CleanLine, header: CleanLine) -> bool:
    """Whether a logger may have written `line` with the traceback that `header` begins."""
    has_place = line.place is not None and header.place is not None
    if has_place and line.place != header.place:
        return False
    return header.writer is None or line.writer == header.writer
