# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the baseline. Decides which violations are reported: by comments, settings, baseline, changed lines."""

import hashlib
import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.decodable import decodable
from ci_doctor.errors import ConfigError
from ci_doctor.lint.lint_rule import (
    IGNORE_WITHOUT_REASON,
    UNKNOWN_RULE,
    UNREADABLE,
    UNUSED_IGNORE,
    LintRule,
    Place,
    Unreadable,
    Violation,
)
from ci_doctor.lint.source_files import ChangedLines, CiRole, SourceKind, matches
from ci_doctor.model.outcome import Severity
from ci_doctor.model.words import nearest
from ci_doctor.system.files.access import read_regular, write_atomically

# The `[lint]` section.


class PathSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What counts for some files: globs relative to the repository's root, and rules to leave out."""

    match: tuple[str, ...]
    ignore: tuple[str, ...]


class LintSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules are named by their ids or by patterns: `shell/*`, `*`.

    baseline: a file of `--write-baseline`, relative to the file that names it.
    """

    ignore: tuple[str, ...] = ()
    severity: dict[str, Severity] = {}
    paths: tuple[PathSettings, ...] = ()
    baseline: str | None = None


# Reads and writes the file of known violations.

_VERSION = 1
_DIGITS = 16  # of a SHA-256: 64 bits


class BaselineEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`count` violations of `rule` in `file` at lines with one text, wherever they stand."""

    rule: str
    file: str
    excerpt: str
    count: int


class LintBaseline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a baseline file."""

    version: int = _VERSION
    entries: tuple[BaselineEntry, ...] = ()


_Key = tuple[str, str, str]


def baseline_of(violations: Iterable[Violation]) -> LintBaseline:
    """The baseline that `violations` make."""
    counts = sorted(Counter(map(_key, violations)).items())
    return LintBaseline(
        entries=tuple(
            BaselineEntry(rule=rule, file=file, excerpt=excerpt, count=count)
            for (rule, file, excerpt), count in counts
        )
    )


def subtract(
    violations: Iterable[Violation], baseline: LintBaseline
) -> tuple[list[Violation], list[BaselineEntry]]:
    """`violations` without those of `baseline`, one for each that it counts; and its entries with something left."""
    left: Counter[_Key] = Counter()
    for entry in baseline.entries:
        left[(entry.rule, entry.file, entry.excerpt)] += entry.count
    new = []
    for violation in violations:
        key = _key(violation)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(violation)
    rest = [each for each in baseline.entries if left[(each.rule, each.file, each.excerpt)] > 0]
    return new, rest


def encode_baseline(baseline: LintBaseline) -> bytes:
    """`baseline` as JSON with an entry per line, so that two branches can be merged."""
    lines = [msgspec.json.encode(entry).decode() for entry in baseline.entries]
    body = ",\n".join(lines)
    return f'{{"version":{baseline.version},"entries":[\n{body}\n]}}\n'.encode()


def decode_baseline(content: bytes, name: str) -> LintBaseline:
    """The baseline in `content`. Raises ConfigError, which calls the file `name`."""
    hint = f"write it again: ci-doctor lint --write-baseline {name}"
    try:
        baseline = msgspec.json.decode(content, type=decodable(LintBaseline))
    except msgspec.DecodeError as error:
        raise ConfigError(f"{name}: not a baseline of lint: {error}", hint=hint) from error
    if baseline.version != _VERSION:
        raise ConfigError(f"{name}: version {baseline.version} of a baseline is unknown", hint=hint)
    return baseline


def _key(violation: Violation) -> _Key:
    """What stays the same if lines move and spaces change."""
    # A violation of several files may have no line of its own.
    text = " ".join((violation.excerpt or violation.summary).split())
    digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
    file = violation.place.file.encode(errors="surrogateescape").decode(errors="replace")
    return (violation.rule.id, file, digest[:_DIGITS])


# The file itself.


def read_baseline(path: Path) -> LintBaseline:
    """The baseline at `path`. Raises ConfigError if it is missing or no baseline."""
    try:
        content = read_regular(path)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror or error}",
            hint=f"write it: ci-doctor lint --write-baseline {path}",
        ) from error
    return decode_baseline(content, str(path))


def write_baseline(path: Path, baseline: LintBaseline) -> None:
    """Write `baseline` to `path`. Raises UsageError if that is not possible."""
    write_atomically(path, encode_baseline(baseline))


# Which violations are reported: by comments, by settings, by a baseline, by changed lines.

_DIRECTIVE: Final = re.compile(
    r"(?:^|(?<=\s))#[ \t]*ci-doctor:[ \t]*ignore\[(?P<rules>[^\]\n]{0,500})\](?P<reason>[^\n]*)"
)
_WORD: Final = "ci-doctor:"
_MOST_COMMENT_LINES: Final = 50


class IgnoreDirective(Struct, frozen=True, kw_only=True):
    """A comment that silences `rules` from `first` to `last` (lines, inclusive).

    line: where the comment stands. reason: what stands behind the bracket; empty without one.
    """

    line: int
    excerpt: str
    rules: tuple[str, ...]
    reason: str
    first: int
    last: int


def directives(text: str, kind: SourceKind) -> tuple[IgnoreDirective, ...]:
    """The directives of a file, from its first line on.

    On a line with code one counts for the whole statement, as far as backslashes continue it; alone
    on a line it counts for the next line that is no comment.
    """
    # Nearly no file has one, and a file may have a line of a megabyte.
    if _WORD not in text:
        return ()
    lines = text.split("\n")
    statements = _statements(lines)
    comments = _comment_lines(text) if kind is SourceKind.PYTHON else None
    read = []
    for line, written in enumerate(lines, start=1):
        match = _DIRECTIVE.search(written) if _WORD in written else None
        if match is None or (comments is not None and line not in comments):
            continue
        target = line if written[: match.start()].strip() else _next_code(lines, line)
        first, last = statements[target - 1]
        directive = IgnoreDirective(
            line=line,
            excerpt=match[0].strip(),
            rules=tuple(filter(None, map(str.strip, match["rules"].split(",")))),
            reason=match["reason"].strip(" \t\r:-–—"),
            first=first,
            last=last,
        )
        read.append(directive)
    return tuple(read)


def _comment_lines(text: str) -> set[int] | None:
    """The lines of a Python program that have a comment; None if it is no Python.

    A docstring may show how a directive is written.
    """
    numbers = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                numbers.add(token.start[0])
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        return None
    return numbers


def _next_code(lines: list[str], line: int) -> int:
    """The first line behind `line` that is no comment: a reason may go on over several lines."""
    for number in range(line + 1, min(line + _MOST_COMMENT_LINES, len(lines)) + 1):
        if not lines[number - 1].lstrip().startswith("#"):
            return number
    return line


def _statements(lines: list[str]) -> list[tuple[int, int]]:
    """For each line the first and the last of those that backslashes join with it."""
    ranges: list[tuple[int, int]] = []
    first = 1
    for number, line in enumerate(lines, start=1):
        if not _is_continued(line) or number == len(lines):
            ranges += [(first, number)] * (number - first + 1)
            first = number + 1
    return ranges


def _is_continued(line: str) -> bool:
    line = line.removesuffix("\r")
    # An even number of them is a backslash itself. A comment has no continuation.
    count = len(line) - len(line.rstrip("\\"))
    return count % 2 == 1 and not line.lstrip().startswith("#")


# What comments of `directive` silence, and what is wrong with these comments themselves.

Directives = Mapping[str, tuple[IgnoreDirective, ...]]  # by file
_Use = tuple[str, int, str]  # a file, the line of a directive, and a rule that it has silenced


def suppress(
    violations: Iterable[Violation], directives: Directives
) -> tuple[list[Violation], set[_Use]]:
    """`violations` that no directive silences at their place, and which directives silence one.

    A directive without a reason silences nothing.
    """
    by_line: dict[tuple[str, str, int], list[int]] = {}
    for file, several in directives.items():
        for each in several:
            for rule in each.rules if each.reason else ():
                for line in range(each.first, each.last + 1):
                    by_line.setdefault((file, rule, line), []).append(each.line)
    kept = []
    used: set[_Use] = set()
    for violation in violations:
        place, rule = violation.place, violation.rule.id
        uses = {
            (place.file, comment, rule)
            for line in range(place.line, place.end_line + 1)
            for comment in by_line.get((place.file, rule, line), ())
        }
        used |= uses
        if not uses:
            kept.append(violation)
    return kept, used


def wrong_directives(
    directives: Directives,
    used: Collection[_Use],
    rule_ids: Callable[[], Collection[str]],
    judged: Mapping[str, Collection[str]],
) -> Iterator[Violation]:
    """What is wrong with the directives themselves.

    rule_ids: gives the ids of all rules; it is called if there is a directive. judged: for each file the families of rules (`shell`) that have
    looked at all of it; a directive for another one may be right.
    """
    rules = rule_ids() if any(directives.values()) else ()
    for file, each in ((file, each) for file, several in directives.items() for each in several):
        wrong: list[tuple[LintRule, str, str | None]] = []
        if not each.reason:
            wrong.append((IGNORE_WITHOUT_REASON, "this comment gives no reason", None))
        for rule in each.rules:
            is_judged = rule.partition("/")[0] in judged.get(file, ())
            if rule not in rules:
                near = nearest(rule, rules)
                remedy = f"did you mean `{near}`?" if near else None
                wrong.append((UNKNOWN_RULE, f"no rule is called `{rule}`", remedy))
            # Without a reason it could silence nothing, and that is said already.
            elif is_judged and each.reason and (file, each.line, rule) not in used:
                wrong.append((UNUSED_IGNORE, f"`{rule}` reports nothing here", None))
        for about, summary, remedy in wrong:
            yield Violation(
                rule=about,
                place=Place(file=file, line=each.line, end_line=each.line),
                summary=summary,
                excerpt=each.excerpt,
                remedy=remedy or about.rule.remedy,
            )


# What `[lint]` in ci-doctor.toml makes of violations.

EVERYTHING = "*"


def check_rule_names(
    settings: LintSettings,
    rule_ids: Callable[[], Collection[str]],
    where: Callable[[tuple[str | int, ...]], str],
) -> None:
    """Raises ConfigError for a name or a pattern in `settings` that fits no rule.

    rule_ids: gives the ids of all rules. where: the place of a value by its keys, such as `ci-doctor.toml:2`.
    """
    names: list[tuple[str, tuple[str | int, ...]]] = [
        *((name, ("ignore", at)) for at, name in enumerate(settings.ignore)),
        *((name, ("severity", name)) for name in settings.severity),
    ]
    for at, each in enumerate(settings.paths):
        names += [(name, ("paths", at, "ignore", below)) for below, name in enumerate(each.ignore)]
    rules = rule_ids() if names else ()
    for name, keys in names:
        if not any(fnmatchcase(rule, name) for rule in rules):
            near = nearest(name, rules)
            hint = (
                f"did you mean `{near}`?"
                if near
                else 'a finding names its rule; "shell/*" is all of a kind'
            )
            raise ConfigError(f"{where(keys)}: [lint]: no rule is called `{name}`", hint=hint)


def is_left_out(file: str, settings: LintSettings) -> bool:
    """Whether no rule at all counts for `file`, so that it need not be read."""
    return EVERYTHING in _ignored(file, settings)


def configured(violations: Iterable[Violation], settings: LintSettings) -> Iterator[Violation]:
    """`violations` without those that the settings leave out, and with the severities they state."""
    patterns: dict[str, tuple[str, ...]] = {}
    for violation in violations:
        file = violation.place.file
        if file not in patterns:
            patterns[file] = _ignored(file, settings)
        rule = violation.rule.id
        if any(fnmatchcase(rule, pattern) for pattern in patterns[file]):
            continue
        severity = settings.severity.get(rule)
        yield violation if severity is None else replace(violation, severity=severity)


def _ignored(file: str, settings: LintSettings) -> tuple[str, ...]:
    """The patterns of rules that do not count for `file`."""
    ignored = list(settings.ignore)
    for each in settings.paths:
        if any(matches(pattern, file) for pattern in each.match):
            ignored += each.ignore
    return tuple(ignored)


# From all that the rules say to what is reported: comments, settings, paths, changes, baseline.

# The families of rules that look at a file of each role, and the one that looks at all files.
_FAMILIES: Final = {
    CiRole.SCRIPT: ("shell",),
    CiRole.PIPELINE: ("pipeline", "shell"),
    CiRole.GATE: ("gate",),
    CiRole.OTHER: (),
}
_OF_EACH: Final = "lint"
_ACROSS: Final = "config"


class SelectionRequest(Struct, frozen=True, kw_only=True):
    """What decides. rule_ids: gives the ids of all rules; paths: the paths to report on; changes: None for all."""

    rule_ids: Callable[[], Collection[str]]
    settings: LintSettings
    paths: tuple[str, ...]
    changes: ChangedLines | None
    baseline: LintBaseline | None


class Selection(Struct, frozen=True, kw_only=True):
    """violations: to be reported, by file and line. The rest counts what is left out, and why."""

    violations: tuple[Violation, ...]
    silenced: int
    known: int
    stale: tuple[BaselineEntry, ...]


def select(
    violations: Iterable[Violation],
    directives: Directives,
    families: Mapping[str, Collection[str]],
    request: SelectionRequest,
) -> Selection:
    """What is left of `violations`, with what is wrong with `directives`.

    families: for each file that was read the families of rules that have judged all of it.
    """
    # Each once: a function that two scripts source is read with both of them.
    once: dict[tuple[str, Place, str], Violation] = {}
    for violation in violations:
        once.setdefault((violation.rule.id, violation.place, violation.summary), violation)
    kept, used = suppress(once.values(), directives)
    wrong = wrong_directives(directives, used, request.rule_ids, families)
    present = configured((*kept, *wrong), request.settings)
    wanted = [violation for violation in present if _is_wanted(violation, request)]
    wanted.sort(key=lambda each: (each.place.file, each.place.line, each.rule.id))
    new, rest = subtract(wanted, request.baseline or LintBaseline())
    return Selection(
        violations=tuple(new),
        silenced=len(once) - len(kept),
        known=len(wanted) - len(new),
        stale=tuple(each for each in rest if _is_judged(each, families, request)),
    )


def _is_judged(
    entry: BaselineEntry, families: Mapping[str, Collection[str]], request: SelectionRequest
) -> bool:
    """Whether this run has looked at the place of an entry; else it cannot be stale."""
    if request.changes is not None or not is_below(entry.file, request.paths):
        return False
    # A file that is gone has no violation either.
    return entry.file not in families or entry.rule.partition("/")[0] in families[entry.file]


def judged_families(role: CiRole, *, is_readable: bool, is_whole: bool) -> tuple[str, ...]:
    """The families of rules that have judged all of a file."""
    if not is_readable:
        return ()
    across = (_ACROSS,) if is_whole else ()
    return (*_FAMILIES[role], _OF_EACH, *across)


def is_below(file: str, paths: Iterable[str]) -> bool:
    """Whether `file` is one of `paths` (relative to the root, `.` for all) or lies below one."""
    return any(path in (".", file) or file.startswith(f"{path}/") for path in paths)


def violation_of(unreadable: Unreadable, line: str) -> Violation:
    """What lint itself reports of what it could not read; `line` is the text there."""
    return Violation(
        rule=UNREADABLE,
        place=Place(file=unreadable.file, line=unreadable.line, end_line=unreadable.line),
        summary=f"no rule could read this: {unreadable.reason}",
        excerpt=line,
    )


def _is_wanted(violation: Violation, request: SelectionRequest) -> bool:
    places = (violation.place, *violation.related)
    if not any(is_below(place.file, request.paths) for place in places):
        return False
    changes = request.changes
    return changes is None or any(changes.touches(place) for place in places)
