# SPDX-License-Identifier: Apache-2.0
"""Pure. The files of a repository by their names: what is looked at, and which kind each text is."""

from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

# What others wrote and a repository only keeps, and what tools make.
LEFT_OUT: Final = frozenset(
    (
        *("third_party", "third-party", "3rdparty", "vendor", "node_modules", "site-packages"),
        *(".venv", "venv", ".git", ".tox", ".nox", "__pycache__", "build", "dist", ".mypy_cache"),
    )
)


class ListedFiles(Struct, frozen=True, kw_only=True):
    """What is looked at.

    root: the top of the repository, or the directory itself without one. directory: what is looked at,
    where the configuration goes. files: the names below `directory`, relative to it, with `/`.
    own_files: those of all of the repository, relative to `root`. is_whole: no limit was reached.
    """

    root: Path
    directory: Path
    is_repository: bool
    files: tuple[str, ...]
    root_files: tuple[str, ...]
    is_whole: bool = True


class TextKind(StrEnum):
    """How the commands in a text are written."""

    SHELL = "shell script"
    YAML = "YAML"
    DOCKERFILE = "image"
    MAKEFILE = "Makefile"
    PROCFILE = "Procfile"
    TOML = "TOML"
    MARKDOWN = "documentation"


class ScriptPlace(StrEnum):
    """Where in a repository a command stands, the most telling place first."""

    PIPELINE = "Buildkite pipeline"
    WORKFLOW = "GitHub workflow"
    CI_SCRIPT = "CI script"
    TASK = "task"
    SCRIPT = "script"
    IMAGE = "image"
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
