# SPDX-License-Identifier: Apache-2.0
"""Pure. A text of the repository, and what kind of file it is by its name."""

from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct


class TextKind(StrEnum):
    """How the commands in a text are written."""

    SHELL = "shell script"
    YAML = "YAML"
    DOCKERFILE = "image"
    MAKEFILE = "Makefile"
    PROCFILE = "Procfile"
    TOML = "TOML"
    MARKDOWN = "documentation"
    PYTHON = "Python"


class ScriptPlace(StrEnum):
    """Where in a repository a command stands, the most telling place first."""

    PIPELINE = "Buildkite pipeline"
    WORKFLOW = "GitHub workflow"
    CI_SCRIPT = "CI script"
    TASK = "task"
    SCRIPT = "script"
    IMAGE = "image"
    SOURCE = "source"
    EXAMPLE = "example"
    README = "README"


class SourceFile(Struct, frozen=True, kw_only=True):
    """`path` is relative to the directory that is looked at; its line ends are those of Unix."""

    path: str
    kind: TextKind
    place: ScriptPlace
    text: str


_SUFFIXES: Final = {
    ".sh": TextKind.SHELL,
    ".bash": TextKind.SHELL,
    ".slurm": TextKind.SHELL,
    ".sbatch": TextKind.SHELL,
    ".yml": TextKind.YAML,
    ".yaml": TextKind.YAML,
    ".dockerfile": TextKind.DOCKERFILE,
    ".mk": TextKind.MAKEFILE,
    ".just": TextKind.MAKEFILE,
    ".py": TextKind.PYTHON,
}
_NAMES: Final = {
    "makefile": TextKind.MAKEFILE,
    "gnumakefile": TextKind.MAKEFILE,
    "justfile": TextKind.MAKEFILE,
    ".justfile": TextKind.MAKEFILE,
    "procfile": TextKind.PROCFILE,
    "pyproject.toml": TextKind.TOML,
    "readme.md": TextKind.MARKDOWN,
    "readme.rst": TextKind.MARKDOWN,
}
_BY_KIND: Final = {
    TextKind.PYTHON: ScriptPlace.SOURCE,
    TextKind.SHELL: ScriptPlace.SCRIPT,
    TextKind.DOCKERFILE: ScriptPlace.IMAGE,
    TextKind.YAML: ScriptPlace.IMAGE,
}
# What a repository shows to others, or measures, is not what its CI runs.
_EXAMPLES: Final = frozenset(
    {
        "examples",
        "example",
        "docs",
        "doc",
        "docs_src",
        "benchmarks",
        "benchmark",
        "demo",
        "demos",
        "tutorials",
        "tutorial",
        "recipes",
        "cookbook",
        "helm",
        "charts",
        "kubernetes",
        "k8s",
        "templates",
    }
)
_CI: Final = frozenset({".buildkite", ".ci", "ci", ".github", ".gitlab", "tests", "test", "e2e"})


def text_kind(path: str) -> TextKind | None:
    """The kind of the file at `path`; None for one in which no command is looked for."""
    name = path.rpartition("/")[2].lower()
    if name.startswith(("dockerfile", "containerfile")):
        return TextKind.DOCKERFILE
    kind = _NAMES.get(name)
    if path.startswith(".github/ISSUE_TEMPLATE/"):
        return None
    # The README of a subdirectory is about something else.
    if kind is TextKind.MARKDOWN and "/" in path:
        return None
    if kind is not None:
        return kind
    return _SUFFIXES.get(PurePosixPath(name).suffix)


def place_of_file(path: str, kind: TextKind) -> ScriptPlace:
    """Where the file at `path` belongs."""
    directories = frozenset(path.lower().split("/")[:-1])
    if kind is TextKind.MARKDOWN:
        return ScriptPlace.README
    if kind is TextKind.YAML and ".buildkite" in directories:
        return ScriptPlace.PIPELINE
    if kind is TextKind.YAML and path.startswith(".github/"):
        return ScriptPlace.WORKFLOW
    if _EXAMPLES & directories:
        return ScriptPlace.EXAMPLE
    if _CI & directories and kind is not TextKind.DOCKERFILE:
        return ScriptPlace.CI_SCRIPT
    return _BY_KIND.get(kind, ScriptPlace.TASK)
