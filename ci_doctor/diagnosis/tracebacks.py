# SPDX-License-Identifier: Apache-2.0
"""Reads the tracebacks of a log: which exception of a chain explains the others, and what became of it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from keyword import iskeyword
from typing import Final

from msgspec import Struct, field, structs

from ci_doctor.diagnosis.log_rules import LOGGED_EXCEPTION, LogRule, Role, RuleSet
from ci_doctor.diagnosis.log_text import CleanLine, LogText, TextLine, clean_line, without_prefixes
from ci_doctor.model.cause import FailureClass

# Levels of a logger for work, and for what does not end a program.
_LEVELS_OF_WORK: Final = frozenset({"TRACE", "DEBUG", "INFO", "NOTICE"})
TOLERATED_LEVELS: Final = _LEVELS_OF_WORK | {"WARN", "WARNING"}


class ExceptionStanding(StrEnum):
    """What an exception is to the failure of its program.

    fatal: its program says that it ends by it. cause: it explains itself. consequence: another
    exception of its chain explains it. answered: a server answered one request with it and went
    on. tolerated: its program went on.
    """

    FATAL = "fatal"
    CAUSE = "cause"
    CONSEQUENCE = "consequence"
    ANSWERED = "answered"
    TOLERATED = "tolerated"

    @property
    def explains(self) -> bool:
        """Whether such an exception can be the cause."""
        return self in {
            ExceptionStanding.FATAL,
            ExceptionStanding.CAUSE,
            ExceptionStanding.ANSWERED,
        }


# `ImportError: no libcudart`, `KeyboardInterrupt`, `app.make.<locals>.OwnError: ...`,
# `ray.exceptions.RayTaskError(ValueError): ...`; one without a message may keep its colon.
_EXCEPTION: Final = re.compile(r"(?P<name>[A-Za-z_][\w.<>]*)(?:\([\w.]+\))?(?::(?: |$)| *$)")
# vLLM's API server ends with such a line; the traceback that it points to stands earlier.
_POINTER: Final = re.compile(
    r"(?:see|check) (?:the )?(?:root cause|stack trace|logs?|errors?)(?: \w+)? \(?(?:above|for)\b"
    # torch prints the original traceback below: `KeyError: Caught KeyError in DataLoader worker process 0.`
    r"|: Caught \w+ in (?:DataLoader worker process|pin memory thread|replica) ?",
    re.IGNORECASE,
)
# Other words with which a line begins that look like a class.
_WORDS: Final = frozenset(
    {"DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "Note", "Warning"}
)
_USUAL_NAME: Final = re.compile(
    r"(?:Error|Exception|Warning|Interrupt|Exit|Iteration|Timeout|TimedOut|Failed|Failure|Died|Dead"
    r"|Unavailable|NotFound|Empty|Full|Abort\w*|Again|OutOf\w+|Closed|Refused|error|Invalid\w+)$"
)


def exception_name(text: str, column: int = 0) -> str | None:
    """The name of the exception's class if `text` is such a line from `column` on."""
    match = _EXCEPTION.match(text, column)
    if match is None:
        return None
    name = match["name"]
    # Names of classes begin with a capital letter; `socket.timeout` and its like have a module.
    if name in _WORDS or iskeyword(name) or ("." not in name and not name[0].isupper()):
        return None
    return name


def is_exception(text: str, column: int, *, is_certain: bool) -> bool:
    """Whether `text` is, from `column` on, the exception of a traceback that has begun.

    Where that is not certain (frames without a header), its class must have one of the usual names.
    """
    name = exception_name(text, column)
    if name is None:
        return False
    return is_certain or _USUAL_NAME.search(name) is not None


_HEADER = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\):")
# Web pages and some log viewers lose the indentation. faulthandler's frames have no comma.
_FRAME = re.compile(r'(?:  |)File "(?P<file>[^"]*)", line \d+(?:,|$)')
_LINK = re.compile(
    r"The above exception was the (?P<direct>direct cause) of the following exception:"
    r"|During handling of the above exception, another exception occurred:"
)


class ChainLink(StrEnum):
    """How an exception follows an earlier one: raised from it, or while it was handled."""

    DIRECT = "direct"
    DURING = "during"


class Traceback(Struct, kw_only=True):
    """A traceback: the indices of its first line and of its exception's first line, -1 before it has come.

    With `is_pointer` the exception only points to another traceback. `has_header` is False for
    frames without the line that begins a traceback, as Python prints for a SyntaxError. follows:
    the index of the exception that this one follows by `link`, None without one. files: those of
    its frames, the innermost last. raises: the source line of the innermost frame, if it is shown, is a `raise`.
    """

    start: int
    has_header: bool
    exception: int = -1
    is_pointer: bool = False
    follows: int | None = None
    link: ChainLink | None = None
    files: list[str] = field(default_factory=list)
    raises: bool = False

    def restates(self, earlier: "Traceback") -> bool:
        """Whether the place that caught `earlier` raised this exception itself, in place of it.

        The outermost frame of a traceback is the one that caught it.
        """
        return self.raises and self.files[-1] == earlier.files[0]


class _Writer(Struct, kw_only=True):
    """What one writer has printed, by the column at which the lines of a traceback begin.

    ended: the index of the last exception. linked: the same, once the words that announce the next
    traceback of the chain have come.
    """

    begun: dict[int, Traceback] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    linked: dict[int, tuple[int, ChainLink]] = field(default_factory=dict)


def tracebacks(lines: Sequence[str]) -> list[Traceback]:
    """Every complete traceback in `lines`, in order of their first lines.

    What a logger puts before each line is skipped: known prefixes are removed, a traceback begins
    at the column of its header or first frame, and all of its lines are read from that column on.
    Lines in between that belong to other writers are passed over.
    """
    reader = TracebackReader()
    for index, line in enumerate(lines):
        reader.read(index, without_prefixes(line))
    return sorted(reader.complete, key=lambda each: each.start)


class TracebackReader:
    """Reads lines one by one; `complete` grows by each traceback whose exception has come."""

    def __init__(self) -> None:
        self.complete: list[Traceback] = []
        # Apart, because processes that log with different prefixes interleave.
        self._writers: dict[str, _Writer] = {}
        # Where the last header stands: index, writer, column.
        self._header: tuple[int, _Writer, int] | None = None
        # The last frame: index, traceback, column.
        self._frame: tuple[int, Traceback, int] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a traceback waits for its exception, or a chain for its next traceback."""
        return any(writer.begun or writer.linked for writer in self._writers.values())

    def read(self, index: int, line: CleanLine) -> None:
        """Take the next line; indices grow."""
        # Those lines belong together that one process logs from one place.
        name = f"{line.writer or ''} {line.place or ''}"
        writer = self._writers.setdefault(name, _Writer())
        text = line.message
        header = _HEADER.search(text)
        if header is not None:
            # It cuts off what has begun at its column or before it: those lines hold it too.
            column = header.start()
            writer.begun = {at: begun for at, begun in writer.begun.items() if at > column}
            follows, link = writer.linked.pop(column, (None, None))
            writer.begun[column] = Traceback(
                start=index, has_header=True, follows=follows, link=link
            )
            self._header = (index, writer, column)
            return
        frame = _FRAME.search(text)
        if frame is not None:
            begun = writer.begun.get(frame.start()) or self._begun_before(index)
            begun.files.append(frame["file"])
            begun.raises = False
            writer.begun[frame.start()] = begun
            self._frame = (index, begun, frame.start())
            return
        words = _LINK.search(text)
        if words is not None:
            # The exception that ended at this column is followed by another.
            exception = writer.ended.get(words.start())
            if exception is not None:
                kind = ChainLink.DURING if words["direct"] is None else ChainLink.DIRECT
                writer.linked[words.start()] = (exception, kind)
            return
        if self._frame is not None and self._frame[0] == index - 1:
            _, begun, column = self._frame
            begun.raises = text[column:].lstrip().startswith("raise ")
        self._end(writer, index, text)

    def _end(self, writer: _Writer, index: int, text: str) -> None:
        """Complete the tracebacks of which `text` is the exception, at the columns where they began."""
        for column, begun in list(writer.begun.items()):
            has_frames = begun.files and index != begun.start
            if not has_frames or not is_exception(text, column, is_certain=begun.has_header):
                continue
            del writer.begun[column]
            writer.ended[column] = index
            begun.exception = index
            begun.is_pointer = _POINTER.search(text) is not None
            self.complete.append(begun)

    def _begun_before(self, index: int) -> Traceback:
        """The traceback of a header on the line before, at another column or of another writer.

        `[… TP0] Scheduler hit an exception: Traceback …` is one record of a logger: only its first
        line has the prefix.
        """
        if self._header is not None:
            start, writer, column = self._header
            if start == index - 1 and column in writer.begun:
                return writer.begun.pop(column)
        return Traceback(start=index, has_header=False)


# From the index of an exception's line to the points of the rule that matches it.
Points = Callable[[int], int]

# `raise … from` names its cause, so a later exception must say much more to be preferred.
_MUCH_MORE = 15
# Python programs ask forgiveness: they try, catch one of these, and try something else. What fails
# then is what nobody had expected.
_OFTEN_EXPECTED = frozenset(
    {
        "KeyError",
        "AttributeError",
        "IndexError",
        "StopIteration",
        "StopAsyncIteration",
        "ImportError",
        "ModuleNotFoundError",
        "FileNotFoundError",
        "Empty",
        "CancelledError",
        "GeneratorExit",
        "KeyboardInterrupt",
    }
)


def chains(tracebacks: Sequence[Traceback]) -> list[list[Traceback]]:
    """The tracebacks by chain, each in the order in which the exceptions were raised."""
    by_exception: dict[int | None, list[Traceback]] = {}
    all_chains = []
    for traceback in sorted(tracebacks, key=lambda each: each.exception):
        chain = by_exception.get(traceback.follows) if traceback.follows is not None else None
        if chain is None:
            chain = []
            all_chains.append(chain)
        chain.append(traceback)
        by_exception[traceback.exception] = chain
    return all_chains


def root_of(chain: Sequence[Traceback], lines: Sequence[str], points: Points) -> Traceback:
    """The traceback in `chain` whose exception explains the others.

    Of an exception raised from another the other explains it. Of one raised while another was
    handled it depends: the first, unless the later one says more, or programs expect the kind of the
    first and the later one does not only restate it: then what was tried in its place has failed.
    """
    root = chain[0]
    for later in chain[1:]:
        more = points(later.exception) - points(root.exception)
        if later.is_pointer:
            continue
        if later.link is ChainLink.DIRECT and not root.is_pointer:
            is_better = more >= _MUCH_MORE
        else:
            text = without_prefixes(lines[root.exception]).message.lstrip(" |")
            name = (exception_name(text) or "").rpartition(".")[2]
            is_expected = name in _OFTEN_EXPECTED
            is_better = more > 0 or (is_expected and (more == 0 or not later.restates(root)))
        if is_better:
            root = later
    return root


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
    """The exception of a traceback in a log; `files` are those of its frames, innermost last.

    logged: a logger printed it, so its program has caught it.
    """

    line: TextLine
    clean: CleanLine
    standing: ExceptionStanding
    files: tuple[str, ...]
    logged: bool


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
            text = exception.clean.message.strip(" |")
            is_whole = ":" in text or is_exception(text, 0, is_certain=False)
            # The log may end within the name: `Val` may have become any word.
            if is_whole or not log.is_unfinished(exception.line):
                exceptions[exception.line.offset] = exception
            read_to = max(read_to, last)
    # Those that repeat an earlier one follow from it: processes that work together often fail
    # alike, and a parent prints what its child has printed.
    texts: set[str] = set()
    for offset, exception in sorted(exceptions.items()):
        text = _REPEATED.sub("", exception.clean.message).strip(" |")
        if text in texts:
            standing = ExceptionStanding.CONSEQUENCE
            exceptions[offset] = structs.replace(exception, standing=standing)
        elif exception.standing.explains:
            texts.add(text)
    return exceptions


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
                files=tuple(traceback.files),
                logged=is_logged(cleaned, traceback.start),
            )
            yield exception, end


def is_logged(lines: Sequence[CleanLine], header: int) -> bool:
    """Whether a logger printed the traceback that begins at index `header`, with a line above it."""
    # What is printed with an exception has a higher level than the work before it.
    above = lines[max(0, header - 1) : header]
    is_record = any(line.level not in {None, *_LEVELS_OF_WORK} for line in above)
    return lines[header].level is not None or is_record


def _standing(traceback: Traceback, is_root: bool, lines: Sequence[CleanLine]) -> ExceptionStanding:
    if traceback.is_pointer or not is_root:
        return ExceptionStanding.CONSEQUENCE
    exception = lines[traceback.exception]
    around = _words_around(traceback, lines)
    name = exception_name(exception.message.lstrip(" |")) or ""
    # A class of warnings may be printed by a library with the frames.
    is_calm = exception.level in TOLERATED_LEVELS or name.endswith("Warning")
    if is_calm or any(map(_TOLERATED.search, around)):
        return ExceptionStanding.TOLERATED
    if any(map(_ANSWERED.search, around)):
        return ExceptionStanding.ANSWERED
    if any(map(_FATAL.search, around)):
        return ExceptionStanding.FATAL
    return ExceptionStanding.CAUSE


def _words_around(traceback: Traceback, lines: Sequence[CleanLine]) -> list[str]:
    """What its program said of an exception: before the traceback, and on the line after it."""
    header = lines[traceback.start]
    before = lines[max(0, traceback.start - 1) : traceback.start]
    after = lines[traceback.exception + 1 : traceback.exception + 2]
    # Only what a logger may have written with the traceback.
    own = [
        line.text
        for line in (*before, *after)
        if None in {line.place, header.place} or line.place == header.place
        if header.writer is None or line.writer == header.writer
    ]
    return [header.text, *own]


# For an exception whose line no rule matches: of a class with an unusual name, or without a message.
_ANY_EXCEPTION: Final = "python/exception"
_ASSERTION: Final = "python/assertion"
_TEST_ASSERTION: Final = "python/test-assertion"
_FAMILY: Final = "python/"
# What a rule says that knows no more than that a program or a test failed.
_ANY_CLASS: Final = frozenset({FailureClass.CODE_BUG, FailureClass.TEST_ASSERTION})
_TEST_FILE: Final = re.compile(
    r"(?:^|[/\\])(?:test_[^/\\]*|[^/\\]*_test|tests?|conftest)\.py$|/unittest/"
)


def rule_of_exception(
    exception: ExceptionLine, matching: LogRule | None, rules: RuleSet
) -> LogRule | None:
    """The rule of `exception`: `matching`, which matches its line, or a more fitting one.

    None if the rules have none for exceptions.
    """
    if matching is None:
        return rules.by_id.get(_ANY_EXCEPTION)
    if matching.role not in {Role.ERROR, Role.FAILURE} or matching.class_ not in _ANY_CLASS:
        return matching
    wanted = matching.id
    # A traceback shows that it is no error of another language that looks the same.
    if not matching.id.startswith(_FAMILY):
        wanted = _ANY_EXCEPTION
    # The same words are a failed test if a test says them, and a mistake in a program if not.
    if exception_name(exception.clean.message.lstrip(" |")) == "AssertionError":
        wanted = _ASSERTION
        if any(map(_TEST_FILE.search, exception.files)):
            wanted = _TEST_ASSERTION
    rule = rules.by_id.get(wanted, matching)
    is_caught = exception.logged and exception.standing is not ExceptionStanding.FATAL
    if is_caught and rule.id == _ANY_EXCEPTION:
        return rules.by_id.get(LOGGED_EXCEPTION.id, rule)
    return rule
