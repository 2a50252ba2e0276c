# SPDX-License-Identifier: Apache-2.0
"""Pure. Words of a shell with the values of their variables, as far as a text of the repository sets them.

What is left to the shell is marked, so that a `$` in single quotes stays a plain one.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

# From the name of a variable to its value; None for one that nothing sets.
Values = Callable[[str], str | None]
# In place of a `$` that the shell expands.
LIVE: Final = "\ue000"
# In place of what nobody knows before the script runs: the output of a command, an argument.
OPAQUE: Final = "\ue001"
# Between the words of an array.
BETWEEN_WORDS: Final = "\ue002"
_MARKS: Final = re.compile(f"[{LIVE}{OPAQUE}{BETWEEN_WORDS}]")
# What stands in braces, with two more levels of them.
_INSIDE: Final = r"(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*"
_USE: Final = re.compile(
    rf"{LIVE}(?:(?P<plain>[A-Za-z_]\w*)|\{{(?P<name>[A-Za-z_]\w*|[0-9@*])"
    rf"(?:(?P<how>:?[-=])(?P<default>{_INSIDE})|(?P<other>[^}}]*))\}}|(?P<special>[0-9@*#?!]))"
)
_BRACES: Final = rf"\$\{{{_INSIDE}\}}"
_PART: Final = re.compile(
    r"(?s)\\\n|\\(?P<escaped>.)|'(?P<single>[^']*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\""
    rf"|\$'(?P<ansi>(?:[^'\\]|\\.)*)'|(?P<live>{_BRACES}|\$(?=[A-Za-z_0-9@*#?!]))|(?P<unread>\$[({{])|(?P<plain>.)"
)
_IN_DOUBLE: Final = re.compile(
    rf"(?s)\\\n|\\(?P<escaped>[\"\\$`])|(?P<live>{_BRACES}|\$(?=[A-Za-z_0-9@*#?!]))|(?P<unread>\$[({{])|(?P<plain>.)"
)
_LINE_END: Final = re.compile(r"\s*\n\s*")
_GLOB: Final = re.compile(rf"[*?\[{LIVE}]")
_MOST_CHARACTERS: Final = 20_000  # of the values in one command
_DEEPEST: Final = 20  # values in values
# What a script was called with; without a call there is nothing.
_ALL_ARGUMENTS: Final = frozenset({"@", "*"})


def without_marks(text: str) -> str:
    """A text of others without the characters that are marks here: each would become a live `$`."""
    return _MARKS.sub("\ufffd", text)


def marked(written: str) -> str:
    """A word as a shell reads it: without its quotes, and a mark in place of each live `$`."""
    made = []
    for part in _PART.finditer(written):
        if part["double"] is not None:
            made += [_plain(each) for each in _IN_DOUBLE.finditer(part["double"])]
        else:
            made.append(_plain(part))
    return "".join(made)


def marked_text(written: str) -> str:
    """A value that stands in no shell, such as one of YAML: a mark in place of each live `$`."""
    if "$(" in written or "`" in written:
        return OPAQUE
    return re.sub(
        rf"({_BRACES})|\$(?=[A-Za-z_0-9@*#?!])", lambda match: LIVE + match[0][1:], written
    )


def _plain(part: re.Match[str]) -> str:
    groups = part.groupdict()
    if groups["live"] is not None:
        return LIVE + str(groups["live"])[1:]
    if groups["unread"] is not None:
        return OPAQUE
    for name in ("escaped", "single", "ansi", "plain"):
        if groups.get(name) is not None:
            return str(groups[name])
    return ""


def unmarked(word: str) -> str:
    """A word with its variables as a shell writes them."""
    return word.replace(LIVE, "$")


def words_of(written: str, values: Values) -> list[str]:
    """The words that one word of a shell becomes: none of an empty variable, several of a list."""
    word = marked(written)
    text = filled(word, values)
    if not text and word:
        return []
    is_whole = _USE.fullmatch(word) is not None
    if is_whole and BETWEEN_WORDS in text:
        return [each for each in text.split(BETWEEN_WORDS) if each]
    # Only without quotes is a plain value several words.
    is_list = is_whole and written.startswith("$")
    if is_list and LIVE not in text:
        return text.split()
    # JSON over several lines.
    return [_LINE_END.sub(" ", text)]


def filled(word: str, values: Values) -> str:
    """`word` with the values of its variables; those that nothing sets stay marked.

    Up to so many characters: values that double would be endless.
    """
    left = _MOST_CHARACTERS

    def text(word: str, within: frozenset[str]) -> str:
        # `within`: the variables that it is itself a value of.
        return _USE.sub(lambda match: one(match, within), word)

    def one(match: re.Match[str], within: frozenset[str]) -> str:
        nonlocal left
        name = match["plain"] or match["name"] or match["special"]
        if name in _ALL_ARGUMENTS:
            return ""
        value = None if name in within else values(name)
        # `PORT=${PORT:-8000}` is about the variable that the job sets.
        if value is None and match["how"]:
            value = marked(match["default"])
        elif value is None:
            is_name = name[0].isalpha() or name[0] == "_"
            return match[0] if is_name and not match["other"] else OPAQUE
        left -= len(value) + 1
        if left < 0 or len(within) > _DEEPEST:
            return OPAQUE
        filled_in = text(value, within | {name})
        cut = (match["other"] or "").removeprefix("[@]")
        ending = cut.lstrip("%")
        # `${NAME%/}`; any other operator of the shell is not worked out.
        if cut and (not cut.startswith("%") or _GLOB.search(ending)):
            return OPAQUE
        return filled_in.removesuffix(ending)

    return text(word, frozenset())


class Settings:
    """The variables that a text sets: `assigned` has line, name and marked value of each, by line."""

    def __init__(self, assigned: Iterable[tuple[int, str, str]]) -> None:
        self._by_name: dict[str, list[tuple[int, str]]] = {}
        for line, name, value in assigned:
            values = self._by_name.setdefault(name, [])
            # `DIR=${DIR%/}` is about the value before.
            before = {name: values[-1][1]} if values else {}
            values.append((line, filled(value, before.get) if before else value))

    def at(self, line: int) -> Values:
        """The values for a command in `line`.

        Those set above it count, and if there is no other, those below: a Makefile has no order.
        """
        return partial(self._value, line)

    def _value(self, line: int, name: str) -> str | None:
        values = self._by_name.get(name)
        if values is None:
            return None
        place = bisect_right(values, line, key=lambda each: each[0])
        return values[max(0, place - 1)][1]


def unknown_variables(words: Sequence[str]) -> tuple[str, ...]:
    """The variables that are still in `words`, in their order."""
    uses = (match for word in words for match in _USE.finditer(word))
    return tuple(dict.fromkeys(use["plain"] or use["name"] or use["special"] for use in uses))


def without_variables(word: str) -> str:
    """`word` without its variables: what it says by itself."""
    return _USE.sub("", word)


def is_opaque(words: Sequence[str]) -> bool:
    """Whether a part of `words` is only known when the script runs: an argument, another's output.

    Also a mark that no variable's name follows: what the shell makes of it is not known.
    """
    return any(_MARKS.search(without_variables(word)) for word in words)


def assignments_in(text: str) -> Iterator[tuple[str, str]]:
    """Each `NAME=value` among the words of `text`, which are those before a command."""
    for match in re.finditer(
        r"(?:^|(?<=\s))([A-Za-z_]\w*)=((?:\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|[^\s'\"\\])*)", text
    ):
        yield match[1], match[2]
