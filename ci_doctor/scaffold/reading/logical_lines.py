# SPDX-License-Identifier: Apache-2.0
"""Pure. The lines of a text that may hold a command, joined where they go on, as a shell would get them.

Each kind of file puts something around a command: a key of YAML, a word of a Dockerfile, the tab of a
Makefile. It is taken off by patterns, and no parser is needed: what is no command is not recognised.
"""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ci_doctor.scaffold.reading.shell_words import without_marks
from ci_doctor.scaffold.reading.source_file import SourceFile, TextKind

_LONGEST: Final = 20_000  # characters of a joined line
_MOST_JOINED: Final = 120
_YAML_HEAD: Final = re.compile(r"^(?:- +)*(?:[\w.\"'-]+:(?:\s+|$))?(?:- +)*")
_YAML_LIST_KEY: Final = re.compile(r"^(?P<indent>\s*(?:- )?)(?:command|args|entrypoint):\s*$")
_YAML_ITEM: Final = re.compile(r"^(?P<indent>\s*)- +(?P<item>\S.*?)\s*$")
# An option, or the value of the one before it.
_GOES_ON: Final = re.compile(r"--\w|['\"]?\{")
_BLOCK: Final = re.compile(r"[|>][+-]?\d?\s*$")
_DOCKER_HEAD: Final = re.compile(r"^(?:CMD|ENTRYPOINT|RUN)\s+", re.IGNORECASE)
_MAKE_HEAD: Final = re.compile(r"^\s*[@+-]*")
_PROMPT: Final = re.compile(r"^\s*(?:[$>] )?")
_TOML_HEAD: Final = re.compile(r"""^\s*[\w."'-]+\s*=\s*(?:\{.*?(?:cmd|shell)\s*=\s*)?""")
_PROC_HEAD: Final = re.compile(r"^[\w-]+:\s+")
_HEADS: Final = {
    TextKind.YAML: _YAML_HEAD,
    TextKind.DOCKERFILE: _DOCKER_HEAD,
    TextKind.MAKEFILE: _MAKE_HEAD,
    TextKind.MARKDOWN: _PROMPT,
    TextKind.TOML: _TOML_HEAD,
    TextKind.PROCFILE: _PROC_HEAD,
}
_QUOTING: Final = frozenset((TextKind.YAML, TextKind.DOCKERFILE, TextKind.TOML))
_MULTILINE: Final = frozenset((TextKind.SHELL, TextKind.YAML, TextKind.MARKDOWN))
_DOUBLING: Final = frozenset((TextKind.YAML, TextKind.MAKEFILE))
_JSON_LIST: Final = re.compile(r"^\[.*\]$")


class LogicalLine(Struct, frozen=True, kw_only=True):
    """`text` as a shell would read it, and the line of the file where it begins."""

    number: int
    text: str


def logical_lines(source: SourceFile) -> Iterator[LogicalLine]:
    """Every line of a file without what its kind puts around a command."""
    lines = source.text.split("\n")
    if source.kind is TextKind.YAML:
        yield from _yaml_lists(lines)
    at = 0
    while at < len(lines):
        text, following = _joined(lines, at, source.kind)
        # A longer line is data.
        if text.strip() and len(text) <= 2 * _LONGEST:
            yield LogicalLine(number=at + 1, text=_bare(text.strip(), source.kind))
        at = following


def _joined(lines: list[str], at: int, kind: TextKind) -> tuple[str, int]:
    """The line at `at` with those that continue it, and the place of the next one."""
    text = lines[at]
    at += 1
    end = min(len(lines), at + _MOST_JOINED)
    while at < end and len(text) < _LONGEST:
        following = lines[at].strip()
        if text.rstrip().endswith("\\"):
            text = f"{text.rstrip()[:-1]} {following}"
        elif kind is TextKind.YAML and _GOES_ON.match(following) and _goes_on(text):
            # A folded block: each option stands on a line of its own.
            text = f"{text.rstrip()} {following}"
        elif _is_open(text) and kind in _MULTILINE:
            # Text of JSON over several lines: for a shell the break is a blank, too.
            text = f"{text.rstrip()} {following}"
        else:
            break
        at += 1
    return text, at


def _is_open(text: str) -> bool:
    """Whether a quotation of an option's value goes on in the next line."""
    place = text.rfind(" --")
    if place < 0:
        return False
    value = text[place:].strip().partition(" ")[2] or text[place:].partition("=")[2]
    quote = value[:1]
    return quote in {"'", '"'} and bool(quote) and value.count(quote) == 1


def _goes_on(text: str) -> bool:
    stripped = text.strip()
    # `key:` and what stands below it are no command.
    return (
        bool(stripped)
        and not stripped.endswith(":")
        and not stripped.startswith("#")
        and _BLOCK.search(stripped) is None
    )


def _bare(text: str, kind: TextKind) -> str:
    head = _HEADS.get(kind)
    if head is not None:
        text = head.sub("", text)
    if kind is TextKind.TOML:
        text = text.rstrip("}, ")
    if kind in _QUOTING:
        text = _unquoted(text)
    # A script of Buildkite, a compose file and a Makefile write `$$` for a `$` of the shell.
    return text.replace("$$", "$") if kind in _DOUBLING else text


def _unquoted(text: str) -> str:
    """A value without the quotes around all of it; a list of words as a line."""
    text = text.strip()
    if _JSON_LIST.match(text):
        return _line_of_list(text)
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "\"'":
        return text
    inner = text[1:-1]
    if text[0] == "'":
        return inner.replace("''", "'")
    # `"a" -b "c"` begins and ends with a quote, and is no quoted value.
    if re.search(r'(?<!\\)"', inner):
        return text
    return inner.replace('\\"', '"').replace("\\\\", "\\")


def _line_of_list(text: str) -> str:
    try:
        words = json.loads(text)
    except ValueError:
        try:
            words = json.loads(text.replace("'", '"'))
        except (ValueError, RecursionError):
            return text
    except RecursionError:
        return text
    # An escape of JSON may write a mark.
    return _line_of_words([without_marks(str(word)) for word in words])


def _line_of_words(words: list[str]) -> str:
    """Words as a line of shell; what is a variable stays one, because Kubernetes expands it too."""
    quoted = []
    for word in words:
        has_variable = "$" in word and "'" not in word and '"' not in word
        quoted.append(f'"{word}"' if has_variable else shlex.quote(word))
    return " ".join(quoted)


def _yaml_lists(lines: list[str]) -> Iterator[LogicalLine]:
    """`command:` and `args:` with a word on each line, joined if one follows the other."""
    words: list[str] = []
    first = 0
    at = 0
    while at < len(lines):
        if _YAML_LIST_KEY.match(lines[at]) is None:
            at += 1
            continue
        items, following = _items(lines, at + 1)
        goes_on = bool(words) and following > at + 1 and at == first
        words = [*words, *items] if goes_on else items
        number = at + 1
        first = following
        at = max(following, at + 1)
        if len(words) > 1:
            yield LogicalLine(number=number, text=_line_of_words(words))


def _items(lines: list[str], at: int) -> tuple[list[str], int]:
    words: list[str] = []
    while at < len(lines) and len(words) < _MOST_JOINED:
        match = _YAML_ITEM.match(lines[at])
        if match is None:
            break
        words.append(_unquoted(match["item"]))
        at += 1
    return words, at
