# SPDX-License-Identifier: Apache-2.0
"""Reads a shell program, and those inside it, by all rules. Acts on processes only if the parser has errors: then bash decides."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.lint.lint_rule import Unreadable, Violation, word_set
from ci_doctor.lint.shell.process_rules import syntax_violation
from ci_doctor.lint.shell.rules import CHECKED
from ci_doctor.lint.shell.shell_program import ShellOption, ShellProgram, read_program, setting
from ci_doctor.lint.source_files import CiRole, FileReading, Shell, ShellSource
from ci_doctor.syntax.shell_nodes import CommandWords, NodeKind, ShellNode
from ci_doctor.syntax.shell_tree import without_expressions

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


# --- a program by all rules ---


# Acts on processes: asks bash if it can read a program. Bash gets the text by its input, and runs nothing of it.

_TIMEOUT_S: Final = 5.0
_COMPLAINT: Final = re.compile(r"line (\d+): (?:syntax error: )?(.*)")


def bash_complaint(text: str) -> tuple[int, str] | None:
    """The line and the words with which bash refuses `text`, by `bash -n`; None if it takes it.

    Raises OSError if there is no bash, or none that answers within five seconds.
    """
    # `shopt -s extglob` in the text has no effect if nothing runs.
    options = ["-O", "extglob"] if "extglob" in text else []
    try:
        ran = subprocess.run(
            [shutil.which("bash") or "bash", "--norc", "--noprofile", *options, "-n"],
            input=text.encode("utf-8", "surrogateescape"),
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
            cwd=Path("/"),
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        )
    except (subprocess.TimeoutExpired, UnicodeEncodeError) as error:
        raise OSError(str(error)) from error
    # It warns of a here-document without an end and still succeeds.
    if ran.returncode == 0:
        return None
    complaint = _COMPLAINT.search(ran.stderr.decode("utf-8", "replace"))
    if ran.returncode < 0 or complaint is None:
        raise OSError(ran.returncode, "bash gives no reason")
    return int(complaint[1]), complaint[2].strip()


# Reads a shell program by all rules. Acts on processes only if the parser has errors: then bash decides.

_DEPTH: Final = 3
_LARGEST: Final = 4_000_000


def check_shell(source: ShellSource, read: Callable[[str], str | None]) -> FileReading:
    """All rules over `source` and over the scripts inside it.

    `read` gives the text of another file of the repository by its path from the root, or None.
    """
    refusal = _refusal(source)
    if refusal:
        return FileReading(role=CiRole.SCRIPT, unreadable=(_unreadable(source, 1, refusal),))
    violations: list[Violation] = []
    unreadable: list[Unreadable] = []
    rest = [(source, False, 0)]
    while rest:
        each, is_limited, depth = rest.pop()
        program = read_program(each, read, is_limited=is_limited)
        if not _is_readable(program, violations, unreadable):
            continue
        for _, check in CHECKED:
            violations += check(program)
        if depth < _DEPTH:
            rest += [(one.source, one.is_limited, depth + 1) for one in embedded_scripts(program)]
    violations.sort(key=lambda one: (one.place.line, one.rule.id))
    return FileReading(
        role=CiRole.SCRIPT, violations=tuple(violations), unreadable=tuple(unreadable)
    )


def _refusal(source: ShellSource) -> str:
    if source.shell is Shell.OTHER:
        return "it is for a shell that no rule knows"
    if "\0" in source.text:
        return "it holds a NUL, so it is no text"
    if len(source.text) > _LARGEST:
        return f"it is longer than {_LARGEST} characters"
    return ""


def _is_readable(
    program: ShellProgram, violations: list[Violation], unreadable: list[Unreadable]
) -> bool:
    """Whether the rules may look at the tree; says what they will not see."""
    source = program.source
    if not program.tree.unread:
        return True
    parts = [_unreadable(source, program.line(part.start), _UNREAD) for part in program.tree.unread]
    try:
        complaint = bash_complaint(without_expressions(source.text))
    except OSError:
        unreadable.append(parts[0])
        return False
    if complaint is None:
        by_line = {part.line: part for part in parts}
        unreadable += [replace(part, is_partial=True) for part in by_line.values()]
        return True
    # Whether something else completes the text: a template, or the expansions of the shell around it.
    is_part = source.offset is None or _TEMPLATE.search(source.text) is not None
    if source.embedded is not None and is_part:
        unreadable.append(parts[0])
    else:
        violations.append(syntax_violation(source, *complaint))
    return False


_TEMPLATE: Final = re.compile(r"\{\{|\{%|\$\$|<[A-Z_]+>")
_UNREAD: Final = "the parser cannot read this line, though it may be right"


def _unreadable(source: ShellSource, line: int, reason: str) -> Unreadable:
    # The file around a script in it has been read.
    is_partial = source.embedded is not None
    return Unreadable(file=source.file, line=line, reason=reason, is_partial=is_partial)
