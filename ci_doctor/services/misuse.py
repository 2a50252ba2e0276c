# SPDX-License-Identifier: Apache-2.0
"""Reads its table: whether a process ended because its command cannot run as it was written.

A misspelt script, module, program or option fails on every machine, however often it is tried. The
programs say so themselves, each with its own exit code:

- 127 and 126 are a shell's for a command that is not found or not executable (POSIX, Shell Command
  Language, 2.8.2), and those of `env`, `nohup`, `nice` and `timeout`.
- 2 is Python's for a file that it cannot open, and that of argparse, click, getopt and clap for
  arguments that they do not know.
- 1 is that of `python -m` for a missing module, and of node, ruby, php and java for a missing file.
  A launcher such as torchrun, or a script with `|| exit 1`, has 1 for whatever its program says.
"""

import functools
import re
from collections.abc import Sequence
from pathlib import Path

import tomli
from msgspec import Struct

# What a process ends with whose command cannot run; see `is_sudden`.
SUDDEN_CODES = frozenset({2, 126, 127})
# A process that ends so soon has not begun to serve.
_SUDDEN_S = 1.0


class Misuse(Struct, frozen=True, kw_only=True):
    """What is wrong with a command.

    `line` is the log line that says what is wrong with a command, `about` its part that names
    the file, module or option.
    """

    line: str
    about: str


class _Sign(Struct, frozen=True):
    """A log line that tells of a command that cannot run, with the exit codes it comes with."""

    codes: frozenset[int]
    pattern: re.Pattern[str]


@functools.cache
def _signs() -> tuple[_Sign, ...]:
    """The table beside this module; read at the first end of a service that never was ready."""
    text = Path(__file__).with_name("misuse.toml").read_text(encoding="utf-8")
    rows = tomli.loads(text)["sign"]
    return tuple(_Sign(frozenset(row["codes"]), re.compile(row["regex"])) for row in rows)


def misuse_of(exit_code: int | None, lines: Sequence[str]) -> Misuse | None:
    """What the last `lines` of a log say is wrong with the command; None if they do not say so."""
    # The last line first: what comes before it may be a warning of something that went on.
    for line in reversed(lines):
        for sign in _signs():
            match = sign.pattern.search(line.rstrip()) if exit_code in sign.codes else None
            if match:
                return Misuse(line=line.strip(), about=match["about"])
    return None


def is_sudden(exit_code: int | None, duration_s: float) -> bool:
    """Whether a process ended as one does whose command cannot run, though its log does not say so.

    One such end may have another reason; if every start ends like that, the command is wrong.
    """
    return exit_code in SUDDEN_CODES and duration_s <= _SUDDEN_S


def blamed_words(about: str, words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command that `about` names: a file by its name, an option by it or its value.

    The program itself is left out: it ran.
    """
    blamed = []
    for word in words[1:]:
        option, _, value = word.partition("=")
        names = [option, value] if word.startswith("-") else [file_name(word)]
        if any(_is_named(name, about) for name in names):
            blamed.append(word)
    return tuple(blamed)


def file_name(word: str) -> str:
    """The last part of a path."""
    return word.rpartition("/")[2]


def _is_named(name: str, about: str) -> bool:
    return bool(name and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", about))
