# SPDX-License-Identifier: Apache-2.0
"""Reads the rules about log lines, those of `[diagnose]` too, and says which of them match a line."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final, cast

import msgspec
import tomli  # compiled: three times as fast as tomllib, which would be half of a short diagnosis
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.diagnosis.log_text import clean_line
from ci_doctor.errors import ConfigError
from ci_doctor.model.cause import FailureClass, RetryPolicy
from ci_doctor.system.files.access import open_file_or_pipe


class DiagnoseSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/diagnose.md).

    `rules`: files with rules of the repository, relative to the file naming them, or to the working
    directory.
    """

    rules: tuple[str, ...] = ()


# --- the rules about log lines, and which of them match a line ---


class Role(StrEnum):
    """What a matching line is in the story of a failure.

    cause: names a specific cause. failure: a tool names what it found wrong (a test, a lint rule, a
    line of source). error: says only that something went wrong. symptom: follows from a cause that
    stands elsewhere. noise: looks fatal and is not. begin and end: where a step of the job begins,
    and where it ends with a failure. success: the job, the step or a tool in it ended well.
    job-passed and job-end: the CI system reports that the job passed, or that it is over, however
    it ended. traceback: a traceback begins. run-begin, run-failed and run-passed: a run of a test
    runner, or one of its tests, begins and ends. Only those in NAMEABLE can be named as a cause.
    """

    CAUSE = "cause"
    FAILURE = "failure"
    ERROR = "error"
    SYMPTOM = "symptom"
    NOISE = "noise"
    BEGIN = "begin"
    END = "end"
    SUCCESS = "success"
    JOB_PASSED = "job-passed"
    JOB_END = "job-end"
    TRACEBACK = "traceback"
    RUN_BEGIN = "run-begin"
    RUN_FAILED = "run-failed"
    RUN_PASSED = "run-passed"


# Lines of these roles can be named as a cause.
NAMEABLE: Final = frozenset({Role.CAUSE, Role.FAILURE, Role.ERROR, Role.SYMPTOM})


# The roles of marks.
MARKS = frozenset({Role.RUN_BEGIN, Role.RUN_PASSED})


# Points of a line before its place in the log is looked at; a rule may set its own.
WEIGHTS: Final = {
    Role.CAUSE: 90,
    Role.FAILURE: 70,
    Role.ERROR: 40,
    Role.SYMPTOM: 15,
}


class Mark(StrEnum):
    """Named groups by which a rule on a begin, an end or a run says more of what it marks.

    job: the whole job ended, and not one step of it. annotation: the step reports an error and goes on.
    after: what begins is what comes after the commands of a job, however they ended. stop: a signal
    ended the job. status: of the command that ended. command: of which step this is the begin or the end.
    """

    JOB = "job"
    ANNOTATION = "annotation"
    AFTER = "after"
    STOP = "stop"
    STATUS = "status"
    COMMAND = "command"


class LogRule(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"class_": "class"}
):
    """One entry of a rules file.

    id: `family/what-happened`. literals: byte strings of which a matching line holds one; they are
    looked for before the regex is tried. regex: in the syntax that both `re` and RE2 read; it is
    searched in the line without escapes, timestamps and prefixes. Its named groups make the
    fingerprint. weight: 0 to 100, None for the usual one of the role. is_outside: the line shows
    that the cause lies outside the change. retry: whether another run can help, if the class says it
    wrongly of these lines. next_line: for the header of a list: a regex for the
    next line with a letter or digit; the hit names that line, and there is no hit if it differs.
    instead_of: ids of rules that do not count on a line that this one matches, however heavy they are.
    yields_to: from ids of rules that may name an example of this one to the reason.
    next_command: a command of ci-doctor that investigates, in which `{name}` stands for a named
    group. match and no_match: examples; of a rule with next_line they are headers.
    """

    id: str
    role: Role
    literals: tuple[str, ...]
    regex: str
    class_: FailureClass | None = None
    weight: int | None = None
    is_outside: bool = False
    retry: RetryPolicy | None = None
    next_line: str | None = None
    instead_of: tuple[str, ...] = ()
    yields_to: dict[str, str] = {}
    explanation: str = ""
    remedy: str = ""
    next_command: str | None = None
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The tool of which the rule tells: its id up to the slash."""
        return self.id.partition("/")[0]

    @property
    def points(self) -> int:
        """The weight of a matching line."""
        if self.weight is not None:
            return self.weight
        return WEIGHTS.get(self.role, 0)


# What a failed command printed last. No line holds a literal of it, but a diagnosis may name it.
LAST_OUTPUT = LogRule(
    id="generic/last-output",
    role=Role.ERROR,
    class_=FailureClass.CODE_BUG,
    weight=20,
    literals=(),
    regex="",
    explanation="The command failed, and these are its last words.",
    remedy="Read the lines above it.",
)
# The exception of a traceback that a logger printed. Whether its program then ended by it, the log does not tell.
LOGGED_EXCEPTION = LogRule(
    id="python/logged-exception",
    role=Role.ERROR,
    class_=FailureClass.CODE_BUG,
    weight=60,
    retry=RetryPolicy.ASK,
    literals=(),
    regex="",
    explanation="A Python program caught an exception and logged it.",
    remedy="Read the traceback above the line, and what the program printed after it.",
)


# The time of `re` may grow with the square of the length of a text. In characters.
_SHORT_TEXT = 400


def fields_of(match: re.Match[str]) -> dict[str, str]:
    """The named groups that hold something."""
    return {name: value for name, value in match.groupdict().items() if value}


class BoundedRegex:
    """`regex`, in the syntax that both engines read; each is compiled when it is needed first.

    RE2 takes time linear in the text (https://github.com/google/re2/wiki/WhyRE2), and is slower to
    load and to start than `re`. So `re` reads short texts, if the regex is not `is_foreign`.
    """

    def __init__(self, regex: str, *, is_foreign: bool) -> None:
        self._regex = regex
        self._is_foreign = is_foreign

    def search(self, text: str, /) -> re.Match[str] | None:
        """The first match in `text`."""
        is_bounded = self._is_foreign or len(text) > _SHORT_TEXT
        return (self._of_re2 if is_bounded else self._of_re).search(text)

    @cached_property
    def _of_re(self) -> re.Pattern[str]:
        return re.compile(self._regex)

    @cached_property
    def _of_re2(self) -> re.Pattern[str]:
        import re2

        # Its patterns and matches have the same methods.
        return cast("re.Pattern[str]", re2.compile(self._regex))


# A literal in one of these would call a rule on a good part of all lines.
ORDINARY_LINES = (
    "2026-11-22T09:00:00.0000000Z  * [new branch]      fix-1 -> origin/fix-1",
    "(APIServer pid=7) INFO 11-22 09:00:00 [loggers.py:127] Engine 000: Avg prompt throughput: 1.0 tokens/s",
    "[2026-11-22 09:00:00] INFO server.py:12: Decode batch, #running-req: 1, token usage: 0.01",
    'INFO:     127.0.0.1:40000 - "POST /v1/completions HTTP/1.1" 200 OK',
    "DEBUG 11-22 09:00:00 [scheduler.py:12] step 7 took 0.01 s",
    "tests/unit/test_models.py::test_error_is_raised PASSED                   [ 12%]",
    "tests/test_errors.py .......................                             [ 20%]",
    "test_failure (tests.test_models.TestFailure.test_failure) ... ok",
    "ok 12 - reports an error for bad input",
    "    ✓ throws an error (2 ms)",
    "=== RUN   TestReader",
    "--- PASS: TestReader (0.00s)",
    "[ RUN      ] ReaderTest.Close",
    "[       OK ] ReaderTest.Close (0 ms)",
    "      Start  1: reader_close",
    " 1/40 Test  #1: reader_close .....................   Passed    0.11 sec",
    "ReaderTest > closes() STARTED",
    "ReaderTest > closes() PASSED",
    "[INFO] Running org.example.ReaderTest",
    "test errors::tests::fails ... ok",
    "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s - in org.example.ErrorTest",
    "[INFO] Downloading from central: https://repo.example.org/maven2/org/example/errors/1.0/errors-1.0.jar",
    "[12/99] /usr/bin/c++ -O2 -Wall -Werror=format -Isrc/include -c src/error.cc -o error.cc.o",
    "gcc -O2 -Wall -Werror -fstack-protector -Isrc -c src/failure.c -o failure.o",
    "   Compiling error-chain v0.12.4",
    "Collecting exceptiongroup>=1.0 (from pytest)",
    "  Downloading exceptiongroup-1.2.0-py3-none-any.whl.metadata (6.6 kB)",
    "Requirement already satisfied: packaging in /usr/lib/python3/site-packages (24.0)",
    "#12 1.234 Get:3 http://deb.example.org/debian bookworm/main amd64 liberror-perl all 0.17 [26.2 kB]",
    "Unpacking liberror-perl (0.17029-2) ...",
    "Loading safetensors checkpoint shards:  50%|#####     | 2/4 [00:01<00:01,  1.5it/s]",
    "  /usr/lib/python3/site-packages/lib/core.py:12: DeprecationWarning: this option is deprecated",
    "+ export PATH=/usr/local/bin:/usr/bin",
    "Receiving objects:  50% (500/1000), 1.2 MiB | 2.4 MiB/s",
)


class RuleSet:
    """House rules, and a repository's own, whose regexes are foreign ones of BoundedRegex."""

    def __init__(self, house: Sequence[LogRule], own: Sequence[LogRule] = ()) -> None:
        self.rules = (*house, *own)
        self._first_own = len(house)
        self._patterns: dict[str, BoundedRegex] = {}

    @property
    def own(self) -> tuple[LogRule, ...]:
        """Those of the repository."""
        return self.rules[self._first_own :]

    @cached_property
    def by_id(self) -> dict[str, LogRule]:
        """From each id to the first rule that has it."""
        return {rule.id: rule for rule in reversed(self.rules)}

    @cached_property
    def by_literal(self) -> dict[bytes, list[LogRule]]:
        """The rules to try on a line with a literal, for each literal once, in a fixed order."""
        by_literal: dict[bytes, list[LogRule]] = {}
        for rule in self.rules:
            for literal in rule.literals:
                by_literal.setdefault(literal.encode(), []).append(rule)
        return by_literal

    @cached_property
    def _order(self) -> dict[str, int]:
        return {rule.id: index for index, rule in enumerate(self.rules)}

    def place(self, rule: LogRule) -> int:
        """Where the rule stands among all."""
        return self._order[rule.id]

    def pattern(self, rule: LogRule, regex: str) -> BoundedRegex:
        """A regex of `rule`, compiled when it is needed first."""
        # Most logs hold the literals of a few rules; compiling all would double the start.
        if regex not in self._patterns:
            is_foreign = self.place(rule) >= self._first_own
            self._patterns[regex] = BoundedRegex(regex, is_foreign=is_foreign)
        return self._patterns[regex]

    def matching(
        self, rules: Iterable[LogRule], texts: Sequence[str]
    ) -> list[tuple[LogRule, dict[str, str]]]:
        """Those of `rules` whose regex is in one of `texts`, in their order.

        With each come the named groups of its first match, without empty ones.
        """
        matches = []
        for rule in sorted(rules, key=self.place):
            search = self.pattern(rule, rule.regex).search
            match = next(filter(None, map(search, texts)), None)
            if match is not None:
                matches.append((rule, fields_of(match)))
        return matches


# Not by importlib.resources, whose import takes longer than to read the files.
_FOLDER = Path(__file__).with_name("rules")


class RuleFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of one TOML file: `[[rule]]` tables."""

    rule: tuple[LogRule, ...] = ()


def house_rules() -> tuple[LogRule, ...]:
    """The rules of `diagnosis/rules/*.toml`, by name of file and in the order of each file."""
    rules: list[LogRule] = []
    for file in sorted(_FOLDER.glob("*.toml")):
        rules.extend(parse_rules(file.read_text("utf-8"), file.name))
    return tuple(rules)


def parse_rules(text: str, name: str) -> tuple[LogRule, ...]:
    """The rules in the TOML `text` of the file `name`; raises ConfigError if it has a mistake."""
    try:
        content = tomli.loads(text)
        return msgspec.convert(content, decodable(RuleFile)).rule
    except (tomli.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{name}: {error}") from error


# RE2 takes at most (length of the line) x (size of the program) steps. For the 2,000 characters of
# LONGEST_TEXT this size keeps them below 30 ms.
_MOST_INSTRUCTIONS = 1000


def regex_problem(regex: str, *, is_foreign: bool) -> str | None:
    """Why `regex` cannot be used, as a sentence; None if it can.

    It must be valid in both engines, so that a rule reads the same wherever it stands. The size of
    one that `is_foreign` is limited; a house rule's time is measured by a test instead.
    """
    import re2

    try:
        re.compile(regex)
    except (re.error, OverflowError, RecursionError) as error:
        return f"regex {regex!r}: {error}"
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0]
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        return f"regex {regex!r}: RE2 does not take it: {reason}"
    if is_foreign and compiled.programsize > _MOST_INSTRUCTIONS:
        return (
            f"regex {regex!r}: too large ({compiled.programsize} instructions, "
            f"at most {_MOST_INSTRUCTIONS}): a line could take more than 50 ms, "
            "use smaller repeats {m,n} or fewer alternatives"
        )
    return None


# Shorter ones stand in most lines.
_SHORTEST_LITERAL_BYTES = 3
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*/[a-z0-9]+(?:-[a-z0-9]+)*")
# A literal may end with the end of a line, and may hold a tab or the start of a colour.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|[\r\n](?!\n?\Z)")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def check_rules(
    rules: Sequence[LogRule], *, is_house: bool = False, taken: Collection[str] = ()
) -> list[tuple[str, str]]:
    """What is wrong with `rules`: the id of a rule, and what to do. Empty if nothing is.

    is_house: their regexes run on `re`, which may backtrack. taken: ids of other rules.
    """
    problems = []
    counts = Counter(rule.id for rule in rules)
    for rule in rules:
        texts = list(_mistakes(rule, is_house=is_house))
        if counts[rule.id] > 1 or rule.id in taken:
            texts.append("another rule has this id: choose a different one")
        problems += [(rule.id, each) for each in texts]
    return problems


def _mistakes(rule: LogRule, *, is_house: bool) -> Iterator[str]:
    is_cause = rule.role in NAMEABLE
    # What follows from a cause has the class of that.
    needs_class = is_cause and rule.role is not Role.SYMPTOM
    wrong = (
        (
            _ID.fullmatch(rule.id) is None,
            "the id is not of the form family/what-happened: use a-z, 0-9 and - only",
        ),
        (
            not rule.literals,
            "no literals: give strings of which every matching line holds one",
        ),
        (not rule.match, "no example in match: give a line that the rule must match"),
        (not 0 <= (rule.weight or 0) <= 100, f"weight {rule.weight}: use 0 to 100"),
        (
            needs_class and rule.class_ is None,
            f"no class: a rule with role {rule.role} needs one",
        ),
        (is_cause and not rule.explanation, "no explanation: say in a sentence what happened"),
        (is_cause and not rule.remedy, "no remedy: say in a sentence what to do"),
    )
    yield from (text for is_wrong, text in wrong if is_wrong)
    for literal in rule.literals:
        yield from _literal_problems(rule, literal)
    regexes = [rule.regex, *filter(None, [rule.next_line])]
    problems = [regex_problem(regex, is_foreign=not is_house) for regex in regexes]
    yield from filter(None, problems)
    if any(problems):
        return
    groups = re.compile(rule.regex).groupindex
    for name in _PLACEHOLDER.findall(rule.next_command or ""):
        if name not in groups:
            yield f"next_command: {{{name}}} is no named group of the regex"
    yield from _example_problems(rule, BoundedRegex(rule.regex, is_foreign=not is_house))


def _literal_problems(rule: LogRule, literal: str) -> Iterator[str]:
    if _CONTROL.search(literal):
        yield f"literal {literal!r}: a line holds no such character, remove it"
    if len(literal.encode()) < _SHORTEST_LITERAL_BYTES:
        yield f"literal {literal!r}: shorter than {_SHORTEST_LITERAL_BYTES} bytes, use a longer part"
    ordinary = [line for line in ORDINARY_LINES if literal in line]
    # A scan leaves out frequent marks that stand alone (`LiteralSearch`).
    if ordinary and rule.role not in MARKS:
        yield (
            f"literal {literal!r}: stands in ordinary lines such as {ordinary[0]!r}, "
            "use a part that only the failure has"
        )


def _example_problems(rule: LogRule, pattern: BoundedRegex) -> Iterator[str]:
    for example in rule.match:
        if not _holds_literal(rule, example):
            yield f"match example {example!r}: it holds none of the literals, add one that it holds"
        elif not _matches(pattern, example):
            yield f"match example {example!r}: the regex does not match it"
    for example in rule.no_match:
        if _holds_literal(rule, example) and _matches(pattern, example):
            yield f"no_match example {example!r}: the regex matches it"


def _holds_literal(rule: LogRule, example: str) -> bool:
    return any(literal in f"{example}\n" for literal in rule.literals)


def _matches(pattern: BoundedRegex, example: str) -> bool:
    return any(pattern.search(text) for text in clean_line(example.encode()).texts)


def repository_rules(paths: Sequence[Path], taken: Collection[str] = ()) -> tuple[LogRule, ...]:
    """The rules in the TOML files `paths`. `taken`: ids of other rules, which they may not have.

    Raises ConfigError if a file cannot be read, or for every mistake in one: a line for each, which
    names the file and the rule. A rule is never left out silently.
    """
    rules: list[LogRule] = []
    for path in paths:
        name = str(path)
        try:
            with open_file_or_pipe(path) as file:
                text = file.read().decode()
        except (OSError, UnicodeDecodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or error
            raise ConfigError(f"{path}: cannot be read: {why}") from error
        added = parse_rules(text, name)
        earlier = {rule.id for rule in rules}
        mistakes = check_rules(added, taken=earlier.union(taken))
        if mistakes:
            raise ConfigError("\n".join(f"{name}: {rule}: {text}" for rule, text in mistakes))
        rules.extend(added)
    return tuple(rules)
