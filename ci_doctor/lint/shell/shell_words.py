# SPDX-License-Identifier: Apache-2.0
"""Pure. The words of a simple command, and the command that a wrapper such as `timeout` or `sudo` runs."""

import re
from typing import Final

from msgspec import Struct

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
