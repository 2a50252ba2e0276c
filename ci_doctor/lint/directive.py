# SPDX-License-Identifier: Apache-2.0
"""Pure. Comments that silence a rule: `# ci-doctor: ignore[rule, other-rule] reason`."""

import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ci_doctor.lint.source_kind import SourceKind

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
    read = []
    for line, match in _comments(text, lines, kind):
        before = lines[line - 1][: match.start()]
        target = line if before.strip() else _next_code(lines, line)
        first, last = statements[target - 1]
        named = [rule.strip() for rule in match["rules"].split(",")]
        directive = IgnoreDirective(
            line=line,
            excerpt=match[0].strip(),
            rules=tuple(rule for rule in named if rule),
            reason=match["reason"].strip(" \t\r:-–—"),
            first=first,
            last=last,
        )
        read.append(directive)
    return tuple(read)


def _comments(text: str, lines: list[str], kind: SourceKind) -> Iterator[tuple[int, re.Match[str]]]:
    """The lines with a directive, and its match there."""
    comments = _comment_lines(text) if kind is SourceKind.PYTHON else None
    for number, line in enumerate(lines, start=1):
        if _WORD not in line or (comments is not None and number not in comments):
            continue
        match = _DIRECTIVE.search(line)
        if match is not None:
            yield number, match


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
