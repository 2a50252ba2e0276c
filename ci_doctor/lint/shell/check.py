# SPDX-License-Identifier: Apache-2.0
"""Reads a shell program by all rules. Acts on processes only if the parser has errors: then bash decides."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ci_doctor.lint.lint_rule import Unreadable, Violation
from ci_doctor.lint.shell.embedded_scripts import embedded_scripts
from ci_doctor.lint.shell.process_rules import syntax_violation
from ci_doctor.lint.shell.rules import CHECKED
from ci_doctor.lint.shell.shell_program import ShellProgram, read_program
from ci_doctor.lint.source_files import CiRole, FileReading, Shell, ShellSource
from ci_doctor.syntax.shell_tree import without_expressions

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
