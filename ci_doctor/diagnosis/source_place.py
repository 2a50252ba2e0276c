# SPDX-License-Identifier: Apache-2.0
"""Pure. The place in source code that a line of a log names: file, line, column."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from ci_doctor.model.facts.diagnose import SourcePlace

_LONGEST_LINE = 2000
_PATH: Final = (
    r"(?P<file>(?:(?<!\w)[A-Za-z]:(?=[\\/]\w))?[\w.@+~\\/-]{0,300}\.(?P<ext>[A-Za-z]\w{0,9}))"
)
# Files that people write. A log or a binary with a number behind it is no place in source code.
_EXTENSIONS: Final = frozenset(
    [
        "ada",
        "asm",
        "bash",
        "bats",
        "bzl",
        "c",
        "cc",
        "cfg",
        "clj",
        "cljs",
        "cmake",
        "cpp",
        "cr",
        "cs",
        "css",
        "cu",
        "cuh",
        "cxx",
        "d",
        "dart",
        "el",
        "elm",
        "erl",
        "ex",
        "exs",
        "f90",
        "fs",
        "fsx",
        "go",
        "gradle",
        "groovy",
        "h",
        "hh",
        "hpp",
        "hrl",
        "hs",
        "html",
        "hxx",
        "ini",
        "ipynb",
        "java",
        "jl",
        "js",
        "json",
        "jsx",
        "kt",
        "kts",
        "less",
        "lua",
        "m",
        "md",
        "mjs",
        "ml",
        "mli",
        "mm",
        "nim",
        "pas",
        "php",
        "pl",
        "pm",
        "proto",
        "ps1",
        "py",
        "pyi",
        "pyx",
        "r",
        "rb",
        "rs",
        "rst",
        "sass",
        "scala",
        "scss",
        "sh",
        "sol",
        "sql",
        "svelte",
        "swift",
        "tex",
        "tf",
        "toml",
        "ts",
        "tsx",
        "vb",
        "vim",
        "vue",
        "xml",
        "yaml",
        "yml",
        "zig",
        "zsh",
    ]
)
# The forms of compilers, linters, interpreters and test runners, the most telling first.
_FORMS: Final = tuple(
    re.compile(form)
    for form in (
        r'File "(?P<file>[^"<>]{1,300})", line (?P<line>\d+)',  # Python
        rf"{_PATH}:\[(?P<line>\d+)(?:,(?P<column>\d+))?\]",  # Maven
        rf"{_PATH}[:]? ?\((?P<line>\d+)[,:] ?(?P<column>\d+)\)",  # tsc, MSVC, older Kotlin
        rf"{_PATH}:(?P<line>\d+):(?P<column>\d+)\b",  # gcc, clang, rustc, go, eslint's unix form
        rf"{_PATH}:(?P<line>\d+)\b",  # javac, mypy, pytest, Ruby, a frame of Java
        rf"{_PATH}\((?P<line>\d+)\)",  # MSVC without a column, Pascal
        rf"{_PATH}\"? on line (?P<line>\d+)",  # PHP
        rf"(?:In |in ){_PATH} line (?P<line>\d+)",  # shellcheck, Perl
        rf"{_PATH} line (?P<line>\d+)",
        rf"{_PATH}::[\w\[]",  # a test's id in pytest
    )
)
# Frames of an interpreter and of what is installed are not the project's own.
_FOREIGN: Final = re.compile(
    r"(?:^|[\\/])(?:site-packages|dist-packages|node_modules|\.cargo|\.rustup|vendor|\.m2)[\\/]"
    r"|(?:^|[\\/])lib[\\/]python\d|^<|^/usr/(?:lib|include|share)/"
)
# Where CI systems check out a repository: what follows is the path in it.
_CHECKOUTS: Final = re.compile(
    r"^(?:/home/runner/work/[^/]+/[^/]+/|/__w/[^/]+/[^/]+/|/home/travis/build/[^/]+/[^/]+/"
    r"|/var/lib/buildkite-agent/builds/[^/]+/[^/]+/[^/]+/|/buildkite/builds/[^/]+/[^/]+/[^/]+/"
    r"|/builds/[^/]+/[^/]+/|/workspace/|/workdir/|/vllm-workspace/|/root/project/"
    r"|/(?:var/lib|home)/jenkins/workspace/[^/]+/)"
)


def source_place(
    line: str, before: Sequence[str] = (), after: Sequence[str] = ()
) -> SourcePlace | None:
    """The place that the cause `line` names, or the lines at it do; None if there is none.

    before: the lines above it, in order: frames of a traceback, of which the last one of the
    project itself counts. after: those below it, as rustc's `--> src/main.rs:7:5`.
    """
    place = _place_in(line)
    if place is not None:
        return place
    place = _own_frame(before)
    if place is not None:
        return place
    for text in after[:1]:
        if text.lstrip().startswith("-->"):
            return _place_in(text)
    return None


def _own_frame(before: Sequence[str]) -> SourcePlace | None:
    """The innermost frame of the project in the Python traceback that `before` ends with."""
    for text in reversed(before):
        is_frame = text.lstrip(" |").startswith('File "')
        if not is_frame and not text.startswith((" ", "|", "\t", "E ")):
            return None
        if is_frame:
            place = _place_in(text)
            if place is not None:
                return place
    return None


def _place_in(line: str) -> SourcePlace | None:
    text = line[:_LONGEST_LINE]
    for form in _FORMS:
        place = _first_own(form.finditer(text))
        if place is not None:
            return place
    return None


def _first_own(matches: Iterable[re.Match[str]]) -> SourcePlace | None:
    for match in matches:
        groups = match.groupdict()
        extension = groups.get("ext")
        if extension is not None and extension.lower() not in _EXTENSIONS:
            continue
        file = match["file"]
        if _FOREIGN.search(file) is not None:
            continue
        return SourcePlace(
            file=_in_repository(file),
            line=_number(groups.get("line")),
            column=_number(groups.get("column")),
        )
    return None


def _in_repository(file: str) -> str:
    path = file.replace("\\", "/")
    # What is left of `file:///srv/a.kt`.
    if path.startswith("//"):
        path = "/" + path.lstrip("/")
    return _CHECKOUTS.sub("", path).removeprefix("./")


def _number(digits: str | None) -> int | None:
    """A 1-based number; None for none, for 0, and for one that no file has."""
    if digits is None or len(digits) > 9:
        return None
    return int(digits) or None
