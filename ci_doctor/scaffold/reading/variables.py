# SPDX-License-Identifier: Apache-2.0
"""Pure. The variables that a text sets, and words with their values in place of their names."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ci_doctor.scaffold.reading.shell_words import BARE, OPAQUE, QUOTED
from ci_doctor.scaffold.reading.source_file import TextKind

_SHELL: Final = re.compile(
    r"^(?:export +|readonly +|local +|declare +(?:-\w+ +)*|typeset +)?"
    r"""(?P<name>[A-Za-z_]\w*)=(?P<value>"[^"]*"|'[^']*'|[^\s;&|]*)"""
)
_MAKE: Final = re.compile(
    r"^(?:export +)?(?P<name>[A-Za-z_]\w*)\s*(?:\?=|::?=|=)\s*(?P<value>[^#]*)"
)
_DOCKER: Final = re.compile(
    r"^(?:ENV|ARG) +(?P<name>[A-Za-z_]\w*)(?:=| +)(?P<value>\"[^\"]*\"|\S*)"
)
_YAML: Final = re.compile(
    r"""^(?:- +)?["']?(?P<name>[A-Z_][A-Z0-9_]*)["']?(?:=|: +)(?P<value>"[^"]*"|'[^']*'|[^#\s][^#]*|)"""
)
_PATTERNS: Final = {
    TextKind.SHELL: (_SHELL,),
    TextKind.MAKEFILE: (_MAKE, _SHELL),
    TextKind.DOCKERFILE: (_DOCKER, _SHELL),
    TextKind.YAML: (_YAML, _SHELL),
    TextKind.MARKDOWN: (_SHELL,),
}
_USE: Final = re.compile(
    rf"[{QUOTED}{BARE}](?:(?P<plain>[A-Za-z_]\w*|[0-9@*#?!])"
    r"|\{(?P<name>[A-Za-z_]\w*|[0-9@*])(?:(?P<how>:?[-=])(?P<default>(?:[^{}]|\{[^{}]*\})*)|(?P<other>[^}]*))\})"
)
_GLOB: Final = re.compile(r"[*?\[$\ue000\ue001]")
_MAKE_USE: Final = re.compile(r"\$[({](?P<name>[A-Za-z_]\w*)[)}]")
_MARK: Final = re.compile(f"[{QUOTED}{BARE}]")
_LIVE: Final = re.compile(r"\$(?=[A-Za-z_0-9@*#?!{])")
_MOST_CHARACTERS: Final = 20_000  # of the values in one command
_DEEPEST: Final = 50  # values in values
# What a script was called with; without a call there is nothing.
_ALL_ARGUMENTS: Final = frozenset({"@", "*"})


def assignments(lines: Sequence[str], kind: TextKind) -> Iterator[tuple[int, str, str]]:
    """The line number, the name and the value of each variable that a text sets plainly."""
    patterns = _PATTERNS.get(kind, ())
    for number, line in enumerate(lines, start=1):
        # Most lines set nothing, and regexes over a large repository would cost a second.
        if "=" not in line and ":" not in line and " " not in line:
            continue
        text = line.strip()
        for pattern in patterns:
            match = pattern.match(text)
            if match is not None:
                yield number, match["name"], _value(match["value"].strip())
                break


def values_at(number: int, assigned: Sequence[tuple[int, str, str]]) -> dict[str, str]:
    """The value of each variable for a command in the line `number`.

    Those set above it count, and if there is no other, those below: a Makefile has no order.
    """
    values = {name: value for _, name, value in reversed(assigned)}
    above: dict[str, str] = {}
    for line, name, value in assigned:
        if line <= number:
            # `DIR=${DIR%/}` is about the value before.
            previous = above.get(name)
            if previous is not None:
                previous = _Filling(above).text(previous, frozenset({name}))
                value = _with_previous(name, value, previous)  # noqa: PLW2901
            above[name] = value
    return values | above


def _with_previous(name: str, value: str, previous: str) -> str:
    def filled(match: re.Match[str]) -> str:
        is_own = name == (match["plain"] or match["name"])
        return _cut(previous, match["other"]) if is_own else match[0]

    longest = len(value) + len(previous) * len(_MARK.findall(value))
    return _USE.sub(filled, value) if longest <= _MOST_CHARACTERS else OPAQUE


def make_variables(text: str) -> str:
    """A line of a Makefile with its own variables written as a shell's."""
    return _MAKE_USE.sub(r"${\g<name>}", text)


def resolved(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """`words` with their variables replaced by `values`; the others stand as they were."""
    made: list[str] = []
    filling = _Filling(values)
    for word in words:
        made += _words_of(word, filling)
    return tuple(made)


def unknown_variables(words: Sequence[str]) -> tuple[str, ...]:
    """The variables that are still in `words`, in their order."""
    names: dict[str, None] = {}
    for word in words:
        for match in _USE.finditer(word):
            names[match["plain"] or match["name"]] = None
    return tuple(names)


def without_variables(word: str) -> str:
    """`word` without its variables: what it says by itself."""
    return _USE.sub("", word)


def is_opaque(words: Sequence[str]) -> bool:
    """Whether a part of `words` is only known when the script runs: an argument, another's output.

    Also a mark that no variable's name follows: what the shell makes of it is not known.
    """
    return any(OPAQUE in word or _MARK.search(without_variables(word)) for word in words)


def _value(written: str) -> str:
    """A value as a word: its live `$` marked. Not by the reader of lines, because YAML has no words."""
    if len(written) > 1 and written[0] == written[-1] == "'":
        return written[1:-1]
    if len(written) > 1 and written[0] == written[-1] == '"':
        written = written[1:-1]
    return _marked(written)


def _marked(written: str) -> str:
    """A text with a mark for each `$` that the shell expands; opaque if it runs a command."""
    if "$(" in written or "`" in written:
        return OPAQUE
    return _LIVE.sub(BARE, written)


def _words_of(word: str, filling: "_Filling") -> list[str]:
    """The words that one word becomes: none of an empty variable, several of a list."""
    text = filling.text(word, frozenset())
    if not text and word:
        return []
    is_whole = word.startswith(BARE) and _USE.fullmatch(word) is not None
    return text.split() if is_whole and BARE not in text else [text]


class _Filling:
    """Puts values in place of names, up to so many characters: values that double would be endless."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._left = _MOST_CHARACTERS

    def text(self, word: str, within: frozenset[str]) -> str:
        """`word` with the values of its variables; `within` are those that it is itself a value of."""

        def value_of(match: re.Match[str]) -> str:
            return self._value(match, within)

        return _USE.sub(value_of, word)

    def _value(self, match: re.Match[str], within: frozenset[str]) -> str:
        name = match["plain"] or match["name"]
        if name in _ALL_ARGUMENTS:
            return ""
        value = self._values.get(name)
        # `PORT=${PORT:-8000}` is about the variable that the job sets.
        if value is None or name in within:
            value = _default(match)
        if value is None:
            is_known = (name[0].isalpha() or name[0] == "_") and not match["other"]
            return match[0] if is_known else OPAQUE
        self._left -= len(value) + 1
        if self._left < 0 or len(within) > _DEEPEST:
            return OPAQUE
        return _cut(self.text(value, within | {name}), match["other"])


def _cut(value: str, operator: str | None) -> str:
    """`${NAME%/}`; any other operator of the shell is not worked out."""
    if not operator:
        return value
    ending = operator.lstrip("%")
    if not operator.startswith("%") or _GLOB.search(ending):
        return OPAQUE
    return value.removesuffix(ending)


def _default(match: re.Match[str]) -> str | None:
    if not match["how"]:
        return None
    return _marked(match["default"].strip("\"'"))
