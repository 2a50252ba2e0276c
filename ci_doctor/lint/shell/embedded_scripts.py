# SPDX-License-Identifier: Apache-2.0
"""Pure. Scripts inside a script: here-documents that a shell reads, and strings after `bash -c`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ci_doctor.lint.lint_rule import word_set
from ci_doctor.lint.shell.shell_program import ShellOption, setting
from ci_doctor.lint.source_files import Shell, ShellSource
from ci_doctor.syntax.shell_nodes import NodeKind, ShellNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.syntax.shell_nodes import CommandWords

_SHELLS: Final = {"bash": Shell.BASH, "sh": Shell.SH, "dash": Shell.SH}
_RUNNERS: Final = word_set(
    "docker podman nerdctl kubectl oc ssh srun su singularity apptainer enroot xargs gcloud "
    "mpirun numactl flock retry"
)
_DOCUMENT: Final = re.compile(r"<<(-?)\s*(['\"\\]?)(\w+)")
_SHEBANG: Final = re.compile(r"#!\s*(?:\S*/)?(?:env\s+(?:-S\s+)?)?(\w+)")
_SCRIPT_FILE: Final = re.compile(r">>?\s*[\"']?[^\s\"']+\.(?:sh|bash)\b")


class EmbeddedScript(Struct, frozen=True, kw_only=True):
    """A script with what runs it. `is_limited`: `timeout` ends it."""

    source: ShellSource
    is_limited: bool


def embedded_scripts(program: ShellProgram) -> Iterator[EmbeddedScript]:
    """Scripts that stand in `program`, one level deep."""
    for node in program.nodes:
        if node.kind is NodeKind.HERE_DOCUMENT:
            made = _here_document(program, node)
        elif node.kind is NodeKind.COMMAND and node.word:
            made = _string(program, node)
        else:
            continue
        if made is not None:
            yield made


def shell_among(words: tuple[str, ...]) -> tuple[int, Shell] | None:
    """The place of a shell's name among the words, which stand after a runner's name, and which shell it is."""
    for index, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name in _SHELLS:
            return index, _SHELLS[name]
    return None


def _here_document(program: ShellProgram, node: ShellNode) -> EmbeddedScript | None:
    command = node.parent
    body = next((each for each in node.children if each.kind is NodeKind.HERE_TEXT), None)
    opening = _DOCUMENT.match(program.text, node.start)
    if command is None or command.kind is not NodeKind.COMMAND or body is None or opening is None:
        return None
    text = program.source.text[body.start : body.end]
    reader = _reader(program, command, node, text)
    if reader is None or not text.strip():
        return None
    shell, errexit = reader
    return EmbeddedScript(
        source=ShellSource(
            file=program.source.file,
            text=text if opening[2] else _expanded(text),
            shell=shell,
            lines=_lines(program, body.start, text),
            offset=_offset(program, body.start) if opening[2] else None,
            errexit=errexit,
            embedded=f"the here-document of line {program.line(node.start)}",
        ),
        is_limited=program.words(command).is_limited,
    )


def _reader(
    program: ShellProgram, command: ShellNode, node: ShellNode, text: str
) -> tuple[Shell, bool] | None:
    """The shell that reads a here-document, and whether with errexit; None if no shell does."""
    words = program.words(command)
    if words.name in _SHELLS:
        # `bash x.sh <<EOF` gives the script an input.
        rest = [each for each in words.arguments if not each.startswith("-")]
        if rest and not words.has("-s"):
            return None
        return _SHELLS[words.name], bool(setting(words.arguments, ShellOption.ERREXIT))
    if words.name in _RUNNERS:
        return _runner_shell(words)
    if words.name in ("cat", "tee"):
        return _written_shell(program, command, node, text)
    return None


def _runner_shell(words: CommandWords) -> tuple[Shell, bool] | None:
    """`docker exec -i c bash <<EOF`; `ssh host <<EOF` runs the login shell."""
    interpreter = shell_among(words.arguments)
    if interpreter is None:
        plain = [each for each in words.arguments if not each.startswith("-")]
        return (Shell.BASH, False) if words.name == "ssh" and len(plain) == 1 else None
    options = words.arguments[interpreter[0] + 1 :]
    if "-c" in options or (options and not options[0].startswith("-")):
        return None
    return interpreter[1], bool(setting(options, ShellOption.ERREXIT))


def _written_shell(
    program: ShellProgram, command: ShellNode, node: ShellNode, text: str
) -> tuple[Shell, bool] | None:
    """`cat > x.sh <<EOF` writes a script: its first line says for which shell, else its file's name."""
    shebang = _SHEBANG.match(text)
    if shebang:
        return (_SHELLS[shebang[1]], False) if shebang[1] in _SHELLS else None
    words = program.words(command)
    line = program.text[command.start : program.text.find("\n", node.start)]
    names = words.arguments if words.name == "tee" else ()
    is_script = _SCRIPT_FILE.search(line) or any(each.endswith(".sh") for each in names)
    return (Shell.BASH, False) if is_script else None


def _string(program: ShellProgram, node: ShellNode) -> EmbeddedScript | None:
    words = program.words(node)
    if words.name in _SHELLS:
        place, shell, rest = -1, _SHELLS[words.name], words.arguments
    elif words.name in _RUNNERS:
        interpreter = shell_among(words.arguments)
        if interpreter is None:
            return None
        place, shell = interpreter
        rest = words.arguments[place + 1 :]
    else:
        return None
    option = next((i for i, each in enumerate(rest) if re.fullmatch(r"-[a-z]*c[a-z]*", each)), None)
    if option is None or option + 1 >= len(rest):
        return None
    written = node.words
    index = len(written) - len(rest) + option + 1
    start, end = written[index]
    quote = program.text[start]
    if quote not in "\"'" or program.text[end - 1] != quote or end - start < 3:
        return None
    inner = program.text[start + 1 : end - 1]
    if quote in inner.replace("\\" + quote, ""):
        return None  # several quoted parts side by side
    text = program.source.text[start + 1 : end - 1]
    is_literal = quote == "'"
    return EmbeddedScript(
        source=ShellSource(
            file=program.source.file,
            text=text if is_literal else _expanded(text),
            shell=shell,
            lines=_lines(program, start + 1, text),
            offset=_offset(program, start + 1) if is_literal else None,
            errexit=bool(setting(rest[: option + 1], ShellOption.ERREXIT)),
            embedded=f"the string of `{words.name}` in line {program.line(start)}",
        ),
        is_limited=words.is_limited or program.is_limited,
    )


def _expanded(text: str) -> str:
    """Without the backslashes that the outer shell takes away; a blank before keeps the offsets."""
    return re.sub(r"\\([\"$`\\])", r" \1", text)


def _lines(program: ShellProgram, start: int, text: str) -> tuple[int, ...]:
    """The line of the file for each line of `text`, which begins at `start`."""
    outer = program.source.lines
    first = program.own_line(start) - 1
    numbers = range(first, first + text.count("\n") + 1)
    if outer is None:
        return tuple(number + 1 for number in numbers)
    return tuple(outer[min(number, len(outer) - 1)] for number in numbers)


def _offset(program: ShellProgram, start: int) -> int | None:
    base = program.source.offset
    return None if base is None else base + start
