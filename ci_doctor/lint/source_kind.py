# SPDX-License-Identifier: Apache-2.0
"""Pure. What a file is, by its name or by its first line."""

import re
from enum import StrEnum
from typing import Final

from ci_doctor.lint.shell.shell_source import Shell


class SourceKind(StrEnum):
    """The kinds of files that lint reads."""

    SHELL = "shell"
    YAML = "YAML"
    PYTHON = "Python"
    TOML = "TOML"
    DOCKERFILE = "Dockerfile"


_SUFFIXES: Final = {
    ".sh": SourceKind.SHELL,
    ".bash": SourceKind.SHELL,
    ".zsh": SourceKind.SHELL,
    ".ksh": SourceKind.SHELL,
    ".yml": SourceKind.YAML,
    ".yaml": SourceKind.YAML,
    ".py": SourceKind.PYTHON,
    ".toml": SourceKind.TOML,
    ".dockerfile": SourceKind.DOCKERFILE,
}
# `Dockerfile`, `Dockerfile.rocm`, `Containerfile`.
_DOCKERFILE: Final = re.compile(r"(?:Dockerfile|Containerfile)(?:\..*)?")
# The kernel reads the first line of a program alone: `#!/usr/bin/env -S bash -e`.
_SHEBANG: Final = re.compile(r"#![ \t]*(?P<path>\S+)[ \t]*(?P<rest>[^\n]*)")
_SHELLS: Final = {"bash": Shell.BASH, "sh": Shell.SH, "dash": Shell.SH, "ash": Shell.SH}
_OTHER_SHELLS: Final = frozenset({"zsh", "ksh", "ksh93", "mksh"})
# Read for what they say of variables and values, which rules over several files compare.
_EVIDENCE: Final = frozenset(
    [
        ".bazel",
        ".c",
        ".cc",
        ".cfg",
        ".cmake",
        ".conf",
        ".cpp",
        ".cu",
        ".cuh",
        ".cxx",
        ".env",
        ".go",
        ".gradle",
        ".groovy",
        ".h",
        ".hip",
        ".hpp",
        ".in",
        ".ini",
        ".ipynb",
        ".j2",
        ".java",
        ".jinja",
        ".js",
        ".json",
        ".kt",
        ".mjs",
        ".mk",
        ".ps1",
        ".pyi",
        ".pyx",
        ".rb",
        ".rs",
        ".swift",
        ".tmpl",
        ".ts",
        ".txt",
    ]
)
_EVIDENCE_NAMES: Final = frozenset({"Jenkinsfile", "Justfile", "Makefile", "justfile", "makefile"})
# Programs that a build tool writes into each repository, and nobody there mends.
_GENERATED_PROGRAMS: Final = frozenset({"gradlew", "mvnw"})
_PYTHON: Final = re.compile(r"python[0-9.]*")


def kind_by_name(file: str) -> SourceKind | None:
    """The kind that the name of `file` tells; None if only its first line could."""
    name = _name(file)
    if _DOCKERFILE.fullmatch(name):
        return SourceKind.DOCKERFILE
    return _SUFFIXES.get(_suffix(name))


def is_evidence(file: str) -> bool:
    """Whether `file`, which no rule looks at by itself, may read or set what others set or read."""
    name = _name(file)
    return _suffix(name) in _EVIDENCE or name in _EVIDENCE_NAMES


def may_be_program(file: str) -> bool:
    """Whether the first line of `file` may tell its kind: its name has no ending, such as a hook's."""
    return "." not in _name(file) and _name(file) not in _GENERATED_PROGRAMS


def kind_by_first_line(line: str) -> SourceKind | None:
    """The kind that a shebang tells; None without one, and for other interpreters."""
    interpreter = _interpreter(line)
    if interpreter is None:
        return None
    if _PYTHON.fullmatch(interpreter):
        return SourceKind.PYTHON
    if interpreter in _SHELLS or interpreter in _OTHER_SHELLS:
        return SourceKind.SHELL
    return None


def shell_of(file: str, text: str) -> Shell:
    """Which shell runs the script `file`. Without a shebang it is bash, which CI calls scripts with."""
    interpreter = _interpreter(text[:256].partition("\n")[0])
    if interpreter in _SHELLS:
        return _SHELLS[interpreter]
    if interpreter is not None or _suffix(_name(file)) in {".zsh", ".ksh"}:
        return Shell.OTHER
    return Shell.BASH


def _interpreter(line: str) -> str | None:
    """The name of the program in a shebang, behind `env` and its options."""
    match = _SHEBANG.match(line)
    if match is None:
        return None
    name = _name(match["path"])
    if name != "env":
        return name
    for word in match["rest"].split():
        # `env -S bash -e`, `env -i NAME=value bash`.
        if not word.startswith("-") and "=" not in word:
            return _name(word)
    return None


def _name(path: str) -> str:
    # Not pathlib, which takes a second for a repository of 100,000 files.
    return path.rpartition("/")[2]


def _suffix(name: str) -> str:
    """The ending with its dot, in small letters; empty without one, and for `.hidden`."""
    stem, dot, ending = name.rpartition(".")
    return f".{ending.lower()}" if dot and stem else ""
