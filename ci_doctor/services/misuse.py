# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a process ended because its command cannot run as it was written.

A misspelt script, module, program or option fails on every machine, however often it is tried. The
programs say so themselves, each with its own exit code:

- 127 and 126 are a shell's for a command that is not found or not executable (POSIX, Shell Command
  Language, 2.8.2), and those of `env`, `nohup`, `nice` and `timeout`.
- 2 is Python's for a file that it cannot open, and that of argparse, click, getopt and clap for
  arguments that they do not know.
- 1 is that of `python -m` for a missing module, and of node, ruby, php and java for a missing file.
  A launcher such as torchrun, or a script with `|| exit 1`, has 1 for whatever its program says.
"""

import re
from collections.abc import Sequence

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


def _sign(codes: set[int], pattern: str) -> _Sign:
    return _Sign(frozenset(codes), re.compile(pattern))


_SIGNS: tuple[_Sign, ...] = (
    # Python
    _sign({1, 2}, r"can't open file (?P<about>.+): \[Errno \d+\]"),
    _sign({1}, r"^\S*(?:python|pypy)[\d.]*\S*: No module named (?P<about>.+)"),
    _sign(
        {1}, r"^\S*(?:python|pypy)[\d.]*\S*: Error while finding module .*? for (?P<about>'.+?')"
    ),
    _sign({1}, r"^\S*(?:python|pypy)[\d.]*\S*: can't find '__main__' module in (?P<about>.+)"),
    # shells and what runs another command
    _sign({126, 127}, r": (?P<about>[^:]+): (?:command )?not found$"),
    _sign({126, 127}, r": command not found: (?P<about>.+)$"),
    _sign({126, 127}, r"can't open input file: (?P<about>.+)$"),
    _sign(
        {126, 127}, r"[:‘'](?P<about>[^:‘’']+)[’']?: (?:No such file or directory|Is a directory)$"
    ),
    _sign(
        {126, 127}, r"[:‘'](?P<about>[^:‘’']+)[’']?: (?:Permission denied|[Cc]annot execute\b.*)$"
    ),
    _sign({2, 127}, r": (?:cannot open|[Cc]an't open) (?P<about>[^:]+)(?:: No such file.*)?$"),
    # what runs another command, with codes of its own: numactl, sudo, strace; gosu, docker; inits
    _sign({1}, r"^numactl: execution of [`‘'](?P<about>.+)['’]: "),
    _sign({1}, r"^sudo: (?P<about>.+): command not found$"),
    _sign({1}, r"^strace: Can't stat '(?P<about>.+)': No such file or directory$"),
    _sign({1, 127}, r"\bexec: (?P<about>\".+?\"): .*\b(?:not found|no such file)"),
    _sign({127}, r"^\[FATAL tini \(\d+\)\] exec (?P<about>.+) failed: "),
    _sign({2}, r"^\[dumb-init\] (?P<about>.+): No such file or directory$"),
    # other interpreters
    _sign({2}, r"Can't open perl script (?P<about>\".+?\")"),
    _sign({1}, r"^ruby: No such file or directory -- (?P<about>\S+)"),
    _sign({1}, r"^Could not open input file: (?P<about>.+)"),
    _sign({1}, r"^Error: Unable to access jarfile (?P<about>.+)"),
    _sign({1}, r"^Error: Could not find or load main class (?P<about>\S+)"),
    _sign({2}, r"^Fatal error: cannot open file (?P<about>'.+?')"),
    # launchers: uv, poetry, npm, make, uvicorn, flask
    _sign({1, 2}, r"^error: Failed to spawn: (?P<about>.+)"),
    _sign({1}, r"^Command not found: (?P<about>\S+)$"),
    _sign({1}, r"\bMissing script: (?P<about>\".+\")"),
    _sign({2}, r"^make: \*\*\* No rule to make target (?P<about>'.+?')"),
    _sign({1, 3}, r"\bError loading ASGI app\. (?P<about>Could not import module \".+?\")"),
    _sign(
        {1, 3}, r"\bError loading ASGI app\. (?P<about>Attribute \".+?\" not found in module .+)"
    ),
    _sign({2}, r"^Error: (?P<about>Could not (?:import|locate) .+)"),
    # options: Python itself, argparse, click and typer, clap, Go's flag, getopt
    _sign({2}, r"^[Uu]nknown option:? (?P<about>\S+)"),
    _sign({1, 2}, r"\berror: unrecognized arguments?: (?P<about>.+)"),
    # Of a value, the value: the option that it is given to is known.
    _sign({1, 2}, r"\berror: argument \S+: invalid .*?: (?P<about>'.+?')(?: \(|$)"),
    _sign({1, 2}, r"\berror: (?P<about>(?:the following arguments are required|argument \S+): .+)"),
    _sign({1, 2}, r"\berror: (?P<about>ambiguous option: .+)"),
    _sign({1, 2}, r"^\W*(?:Error: )?No such (?:option|command):? (?P<about>\S+)"),
    _sign({2}, r"^\W*(?:Error: )(?P<about>(?:Missing|Invalid value|Got unexpected|Option) .+)"),
    _sign(
        {2}, r"^error: (?P<about>(?:unexpected argument|unrecognized subcommand|invalid value) .+)"
    ),
    _sign({2}, r"^flag provided but not defined: (?P<about>\S+)"),
    _sign({1, 2}, r": (?:unrecognized|invalid|unknown) option (?:-- )?(?P<about>\S+)$"),
)
# Node names the file first, and that nothing required it last.
_NODE_MISSING = re.compile(r"^Error: Cannot find module (?P<about>'.+')")
_NODE_ENTRY = "requireStack: []"


def misuse_of(exit_code: int | None, lines: Sequence[str]) -> Misuse | None:
    """What the last `lines` of a log say is wrong with the command; None if they do not say so."""
    if exit_code == 1 and any(_NODE_ENTRY in line for line in lines):
        for line in lines:
            match = _NODE_MISSING.search(line)
            if match:
                return Misuse(line=line.strip(), about=match["about"])
    # The last line first: what comes before it may be a warning of something that went on.
    for line in reversed(lines):
        for sign in _SIGNS:
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
