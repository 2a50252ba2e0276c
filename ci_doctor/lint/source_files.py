# SPDX-License-Identifier: Apache-2.0
"""Reads files of a tree as text. Says what a file is, by its name or by its first line."""

import codecs
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

from ci_doctor.lint.lint_rule import Place, Unreadable, Violation, word_set
from ci_doctor.system.files.access import read_regular


class Shell(StrEnum):
    """Who runs the program; rules of bash do not hold for all of them."""

    BASH = "bash"
    SH = "sh"
    OTHER = "other"


class ShellSource(Struct, frozen=True, kw_only=True):
    """The text of a program with its place.

    lines: for each line of `text`, its 1-based line in `file`; None if `text` is the whole file.
    offset: where `text` begins in `file`, in characters; None if it does not stand there as it is,
    so that no edit can be made. errexit, pipefail: options that the program's caller sets,
    as `bash -e -c` of Buildkite's agent does. embedded: what it stands in, such as "the command of
    step 'tests'"; None for a file of its own.
    """

    file: str
    text: str
    shell: Shell = Shell.BASH
    lines: tuple[int, ...] | None = None
    offset: int | None = 0
    errexit: bool = False
    pipefail: bool = False
    embedded: str | None = None


# What a file is, by its name or by its first line.


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
_EVIDENCE: Final = word_set(
    ".bazel .c .cc .cfg .cmake .conf .cpp .cu .cuh .cxx .env .go .gradle .groovy .h .hip .hpp .in "
    ".ini .ipynb .j2 .java .jinja .js .json .kt .mjs .mk .ps1 .pyi .pyx .rb .rs .swift .tmpl .ts "
    ".txt"
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


# The text of a file, so that it can be written again byte by byte.

_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class SourceText(Struct, frozen=True, kw_only=True):
    """A file as its readers get it: decoded, without a byte order mark, with its own line ends.

    encoding: `utf-8`, or `latin-1` for bytes that are not UTF-8; it maps each byte to a character.
    """

    file: str
    text: str
    encoding: str = "utf-8"
    has_bom: bool = False

    def encoded(self, text: str) -> bytes:
        """`text` as the bytes of this file. Raises UnicodeEncodeError for what Latin-1 lacks."""
        mark = codecs.BOM_UTF8 if self.has_bom else b""
        return mark + text.encode(self.encoding)


def decoded(file: str, content: bytes) -> SourceText | Unreadable:
    """`content` as text; UTF-16 and binary content is unreadable for each program that runs it."""
    if content.startswith(_UTF16):
        return Unreadable(file=file, line=1, reason="it is UTF-16, which no shell reads")
    has_bom = content.startswith(codecs.BOM_UTF8)
    body = content.removeprefix(codecs.BOM_UTF8)
    place = body.find(b"\0")
    if place >= 0:
        line = body.count(b"\n", 0, place) + 1
        return Unreadable(file=file, line=line, reason="it holds a NUL byte, as binary files do")
    try:
        return SourceText(file=file, text=body.decode(), has_bom=has_bom)
    except UnicodeDecodeError:
        text = body.decode("latin-1")
        return SourceText(file=file, text=text, encoding="latin-1", has_bom=has_bom)


# What lint looks at: the part of a tree, and the files in it.

WHOLE = "."


class LintScope(Struct, frozen=True, kw_only=True):
    """What to look at.

    root: the repository's root, or without one the working directory, or one that holds all paths. paths: relative
    to it, with `/`; `.` is all of it. is_repository: git lists the files.
    """

    root: Path
    paths: tuple[str, ...]
    is_repository: bool


class SourcePath(Struct, frozen=True, kw_only=True):
    """A file that lint reads; `file` is relative to the root."""

    file: str
    kind: SourceKind


class LintTree(Struct, frozen=True, kw_only=True):
    """The files of a tree in the order of their names, and counts of what was left out.

    root: what names are relative to. listed: the names of all files of the repository, also of
    those outside of the paths; None without a repository.
    evidence: files, also of other projects, that only rules over several files read. missing: listed by git, and
    deleted. links: symbolic links, which are not followed. special: pipes, sockets, devices, submodules.
    vendored: in directories of other projects.
    """

    root: Path
    listed: Callable[[], tuple[str, ...]] | None
    files: tuple[SourcePath, ...]
    evidence: tuple[str, ...]
    missing: int = 0
    links: int = 0
    special: int = 0
    vendored: int = 0


# The Python programs that a pipeline starts.

_STARTED = re.compile(
    r"\bpython(?:3(?:\.\d+)?)?[ \t]+(?:-[uBIE]+[ \t]+)*([\w./-]+\.py)\b",
)


def started_programs(text: str) -> Iterator[tuple[str, ...]]:
    """The parts of each path in commands such as `python3 ci/compare.py`, without `..`; not those in comments."""
    for line in text.split("\n"):
        if ".py" in line and not line.lstrip().startswith("#"):
            for match in _STARTED.finditer(line):
                parts = PurePosixPath(match[1]).parts
                yield tuple(part for part in parts if part not in {".", "..", "/"})


# The texts of one tree, each read once.

# A pipeline of 10^5 steps has 10 MiB.
_MOST_BYTES = 32 << 20
# What is larger is data: weights of a tokenizer, a recorded answer.
_MOST_EVIDENCE_BYTES = 1 << 20
_NAMED_BY = frozenset({SourceKind.SHELL, SourceKind.YAML})


class RepositoryTexts:
    """The files below `root`, read when they are asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[str, SourceText | Unreadable] = {}

    def source(self, file: str) -> SourceText | Unreadable:
        """The text of a file that was collected, or why it cannot be read."""
        if file not in self._read:
            self._read[file] = read_source(self._root, file)
        return self._read[file]

    def read(self, path: str) -> str | None:
        """The text of a file that a script names; None if it lies outside of the root or is none."""
        try:
            real = Path(os.path.realpath(self._root / path))
            relative = real.relative_to(os.path.realpath(self._root)).as_posix()
        except (OSError, ValueError):
            return None
        source = self.source(relative)
        return source.text if isinstance(source, SourceText) else None

    def all_texts(self, files: Iterable[str]) -> Mapping[str, str]:
        """The texts of those of `files` that can be read, by name."""
        texts = {}
        for file in files:
            source = self._read.get(file) or read_source(self._root, file, _MOST_EVIDENCE_BYTES)
            if isinstance(source, SourceText):
                texts[file] = source.text
        return texts

    def users_of(
        self,
        changed: Iterable[SourcePath],
        files: Iterable[SourcePath],
        tell: Callable[[str], None],
    ) -> list[SourcePath]:
        """Those of `files` that name a changed script: what they do may have changed with it."""
        names = {Path(each.file).name for each in changed if each.kind is SourceKind.SHELL}
        users = []
        for each in files if names else ():
            if each.kind in _NAMED_BY:
                tell(f"reading {each.file}")
                source = self.source(each.file)
                if isinstance(source, SourceText) and any(name in source.text for name in names):
                    users.append(each)
        return users


def read_source(root: Path, file: str, most_bytes: int = _MOST_BYTES) -> SourceText | Unreadable:
    """The text of `file`, relative to `root`; or why it cannot be read. A link is not followed."""
    try:
        content = read_regular(root / file, most_bytes, follow=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return Unreadable(file=file, line=1, reason=f"it cannot be read: {reason}")
    return decoded(file, content)


# Globs over paths: `*` stays in one directory, `**` crosses them.

_ANY = "**"
_CHOICE = re.compile(r"\{([^{}/]+)\}")
_MOST_CHOICES = 64


def matches(pattern: str, file: str) -> bool:
    """Whether `file` (relative, with `/`) matches `pattern`.

    `vendor/**` is all below a directory, `**/x.sh` a name in any of them, `*.{yml,yaml}` two
    endings. A pattern without a slash is looked for in each directory, as git does it.
    """
    names = file.split("/")
    return any(_fits(segments, names) for segments in _alternatives(pattern))


def _fits(segments: tuple[str, ...], names: list[str]) -> bool:
    """Whether `segments` match all of `names`: a set of positions, so that no star is tried twice."""
    positions = set(_onward(segments, 0))
    for name in names:
        reached: set[int] = set()
        for position in positions:
            if position == len(segments):
                continue
            if segments[position] == _ANY:
                reached.update(_onward(segments, position))
            elif fnmatchcase(name, segments[position]):
                reached.update(_onward(segments, position + 1))
        positions = reached
    return len(segments) in positions


def _onward(segments: tuple[str, ...], position: int) -> Iterator[int]:
    """`position`, and those behind it that `**` reaches with no directory at all."""
    yield position
    while position < len(segments) and segments[position] == _ANY:
        position += 1
        yield position


@lru_cache(maxsize=256)
def _alternatives(pattern: str) -> tuple[tuple[str, ...], ...]:
    expanded = [pattern]
    while len(expanded) < _MOST_CHOICES:
        match = _CHOICE.search(expanded[0])
        if match is None:
            break
        choices = match[1].split(",")
        expanded = [each.replace(match[0], choice, 1) for each in expanded for choice in choices]
    return tuple(map(_segments, expanded))


def _segments(pattern: str) -> tuple[str, ...]:
    if "/" not in pattern.rstrip("/"):
        pattern = f"{_ANY}/{pattern}"
    if pattern.endswith("/"):
        pattern += _ANY
    segments = pattern.strip("/").split("/")
    # All below a directory, and not the directory itself.
    if segments[-1] == _ANY:
        segments.append("*")
    return tuple(segments)


# Which lines of which files a change touches.

Lines = tuple[tuple[int, int], ...]  # first and last line, 1-based and inclusive


class ChangedLines(Struct, frozen=True, kw_only=True):
    """What has changed since `base`, a commit. `lines` maps each changed file to its ranges."""

    base: str
    lines: Mapping[str, Lines]

    def touches(self, place: Place) -> bool:
        """Whether a line of `place` has changed."""
        for first, last in self.lines.get(place.file, ()):
            if place.line <= last and first <= place.end_line:
                return True
        return False


class CiRole(StrEnum):
    """What a file is in CI; it decides the rules that look at it."""

    SCRIPT = "scripts"
    PIPELINE = "pipelines"
    GATE = "gates"
    OTHER = "other files"


class FileReading(Struct, frozen=True, kw_only=True):
    """What the rules say of one file.

    unreadable: what no rule has looked at. scripts: programs that stand in the file, and are read next.
    """

    role: CiRole
    violations: tuple[Violation, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    scripts: tuple[ShellSource, ...] = ()
