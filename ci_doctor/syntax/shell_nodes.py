# SPDX-License-Identifier: Apache-2.0
"""Pure. The statements of a shell program as a tree, and the words of a simple command."""

from __future__ import annotations

import bisect
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator


class NodeKind(StrEnum):
    """What a node is. A redirection has no node: it belongs to what it redirects."""

    PROGRAM = "program"
    COMMAND = "command"
    DECLARATION = "declaration"
    ASSIGNMENT = "assignment"
    TEST = "test"
    AND_OR = "and-or"
    PIPELINE = "pipeline"
    NEGATION = "negation"
    SUBSHELL = "subshell"
    GROUP = "group"
    IF = "if"
    ELIF = "elif"
    ELSE = "else"
    LOOP = "loop"
    DO = "do"
    CASE = "case"
    CASE_ITEM = "case-item"
    FUNCTION = "function"
    SUBSTITUTION = "substitution"
    HERE_DOCUMENT = "here-document"
    HERE_TEXT = "here-text"


class ShellNode(Struct, eq=False, kw_only=True):
    """A statement. `start` and `end` are offsets in characters.

    word: the name of a command or a function, the keyword of a loop. operators: `&&` or `||` between
    the children of an and-or. is_condition: it stands between `if` and `then`, or between `while`
    and `do`. words: where the words of a simple command stand, without assignments before its name
    and redirections; of an assignment, where each stands. It is changed only while the tree is
    built; is_open: its end is not known yet.
    """

    kind: NodeKind
    start: int
    end: int
    parent: ShellNode | None = None
    children: list[ShellNode] = field(default_factory=list)
    background: bool = False
    is_condition: bool = False
    word: str = ""
    operators: list[str] = field(default_factory=list)
    words: list[tuple[int, int]] = field(default_factory=list)
    redirections: list[tuple[int, int]] = field(default_factory=list)
    is_open: bool = False

    def ancestors(self) -> Iterator[ShellNode]:
        """Its parent, the parent's parent, up to the program."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def descendants(self) -> Iterator[ShellNode]:
        """All nodes below it, in the order of the text."""
        rest = self.children[::-1]
        while rest:
            node = rest.pop()
            yield node
            rest += node.children[::-1]

    def own(self) -> Iterator[ShellNode]:
        """Nodes below it that run when it runs: not the bodies of functions defined in it."""
        rest = self.children[::-1]
        while rest:
            node = rest.pop()
            yield node
            if node.kind is not NodeKind.FUNCTION:
                rest += node.children[::-1]

    def enclosing(self, *kinds: NodeKind) -> ShellNode | None:
        """The nearest ancestor of one of `kinds` inside the same function, or that function; None if there is none."""
        for node in self.ancestors():
            if node.kind in kinds:
                return node
            if node.kind is NodeKind.FUNCTION:
                return None
        return None

    def child_at(self, offset: int) -> ShellNode | None:
        """The child that stands at `offset`; None between children."""
        place = bisect.bisect_right(self.children, offset, key=lambda each: each.start) - 1
        if place < 0 or offset >= self.children[place].end:
            return None
        return self.children[place]

    def next_statement(self) -> ShellNode | None:
        """The statement after it in the same sequence; None if it is the last."""
        return next(iter(self.following(1)), None)

    def preceding(self, count: int) -> list[ShellNode]:
        """At most `count` statements before it in the same sequence, the nearest first."""
        siblings, place = self._siblings()
        return siblings[max(0, place - count) : place][::-1]

    def following(self, count: int) -> list[ShellNode]:
        """At most `count` statements after it in the same sequence."""
        siblings, place = self._siblings()
        return siblings[place + 1 : place + 1 + count]

    def _siblings(self) -> tuple[list[ShellNode], int]:
        """The statements of its sequence, and its place: by bisection, as there may be 10^5 of them."""
        siblings = self.parent.children if self.parent is not None else [self]
        place = bisect.bisect_left(siblings, self.start, key=lambda each: each.start)
        while siblings[place] is not self:
            place += 1
        return siblings, place


# The words of a simple command, and the command that a wrapper such as `timeout` or `sudo` runs.

_PLAIN_QUOTES: Final = re.compile(r"""(?s)\\(.)|"((?:[^"\\]|\\.)*)"|'([^']*)'""")
_MOST_WRAPPERS: Final = 20
_ASSIGNMENT: Final = re.compile(r"\w+=")

# How many words each wrapper takes for itself besides its options, and options that take a word.
_WRAPPERS: Final[dict[str, tuple[int, frozenset[str]]]] = {
    "timeout": (1, frozenset({"-k", "-s", "--signal", "--kill-after"})),
    "gtimeout": (1, frozenset({"-k", "-s"})),
    "sudo": (0, frozenset({"-u", "-g"})),
    "env": (0, frozenset({"-u", "-C", "-S"})),
    "nohup": (0, frozenset()),
    "setsid": (0, frozenset()),
    "time": (0, frozenset()),
    "command": (0, frozenset()),
    "builtin": (0, frozenset()),
    "exec": (0, frozenset({"-a"})),
    "nice": (0, frozenset({"-n"})),
    "ionice": (0, frozenset({"-c", "-n"})),
    "stdbuf": (0, frozenset({"-o", "-e", "-i"})),
    "unbuffer": (0, frozenset()),
    "taskset": (1, frozenset()),
}


class CommandWords(Struct, frozen=True):
    """A command's words without their quotes. `name` is the first; `is_limited` if `timeout` stands before it."""

    name: str
    arguments: tuple[str, ...]
    is_limited: bool = False

    def has(self, *options: str) -> bool:
        """Whether one of `options` stands among the arguments, `--option=value` counted."""
        return any(
            argument == option or (option.startswith("--") and argument.startswith(option + "="))
            for argument in self.arguments
            for option in options
        )

    def flags(self) -> str:
        """The letters of all short options together: `-sf -o x` gives "sfo"."""
        short = [each[1:] for each in self.arguments if re.match(r"-[A-Za-z]", each)]
        return "".join(short)


def unquoted(word: str) -> str:
    """A word without its quotes. Expansions stay as they are written."""
    if "'" in word or '"' in word or "\\" in word:
        return _PLAIN_QUOTES.sub(lambda match: match[1] or match[2] or match[3] or "", word)
    return word


def unwrapped(words: tuple[str, ...]) -> CommandWords:
    """The command that is run in the end by `words`, which has at least one word."""
    is_limited = False
    for _ in range(_MOST_WRAPPERS):
        name = words[0].rpartition("/")[2]
        if name not in _WRAPPERS:
            return CommandWords(name, words[1:], is_limited)
        rest = _after_wrapper(name, words[1:])
        if not rest:
            return CommandWords(name, words[1:], is_limited)
        is_limited = is_limited or name in ("timeout", "gtimeout")
        words = rest
    return CommandWords(words[0].rpartition("/")[2], words[1:], is_limited)


def _after_wrapper(name: str, rest: tuple[str, ...]) -> tuple[str, ...]:
    own, with_value = _WRAPPERS[name]
    place = 0
    while place < len(rest):
        word = rest[place]
        if word in with_value:
            place += 2
        elif word.startswith("-") or _ASSIGNMENT.match(word):
            place += 1
        elif own:
            own -= 1
            place += 1
        else:
            break
    return rest[place:]
