# SPDX-License-Identifier: Apache-2.0
"""Pure. A program together with the files that it sources, as far as `read` has them."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from ci_doctor.lint.shell.shell_node import ShellNode
from ci_doctor.lint.shell.shell_program import ShellProgram
from ci_doctor.lint.shell.shell_source import ShellSource
from ci_doctor.lint.shell.sourced_files import candidates
from ci_doctor.lint.shell.syntax_tree import syntax_tree

Read = Callable[[str], str | None]

_DEPTH: Final = 4


def read_program(source: ShellSource, read: Read, *, is_limited: bool = False) -> ShellProgram:
    """`source` with what it sources, to a depth of four files."""
    program = ShellProgram(source, syntax_tree(source.text))
    _link(program, read, frozenset({source.file}))
    program.is_limited = is_limited
    return program


@lru_cache(maxsize=64)
def _library(file: str, text: str) -> ShellProgram:
    """A sourced file: hundreds of scripts source the same one, and it is parsed once."""
    return ShellProgram(ShellSource(file=file, text=text), syntax_tree(text))


def _link(program: ShellProgram, read: Read, known: frozenset[str]) -> None:
    if len(known) > _DEPTH:
        return
    sourced = []
    for name in ("source", "."):
        for node in program.by_name.get(name, []):
            library = _sourced(program, node, read, known)
            if library is not None:
                sourced.append((node, library))
    program.sourced_at = tuple(sourced)


def _sourced(
    program: ShellProgram, node: ShellNode, read: Read, known: frozenset[str]
) -> ShellProgram | None:
    words = program.written_words(node)
    if len(words) < 2:
        return None
    for path in candidates(words[1], program.text, program.source.file):
        text = None if path in known else read(path)
        if text is None or "\0" in text:
            continue
        library = _library(path, text)
        if "source" in library.by_name or "." in library.by_name:
            # What it sources depends on `read`, so that it is not shared.
            library = ShellProgram(library.source, library.tree)
            _link(library, read, known | {path})
        return library
    return None
