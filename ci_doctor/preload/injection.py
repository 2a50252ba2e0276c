# SPDX-License-Identifier: Apache-2.0
"""Reads the first line of scripts. Code of ours in the interpreters that a command starts, by its environment alone.

A `sitecustomize` on PYTHONPATH is found by every Python that reads this variable, and so by spawned, forked and
subprocess children. It runs the one that it stands in front of.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_doctor.preload.preload_rule import PreloadRule, format_rule

INJECT = "CI_DOCTOR_INJECT"
RULES = "CI_DOCTOR_PRELOAD_RULES"
FOLDER = Path(__file__).parent / "injected"
_SHIM = Path(__file__).parent / "shim"
_PRELOAD_FILES = (
    _SHIM / "_ci_doctor_preload_rt.py",
    _SHIM / "_ci_doctor_preload.py",
    FOLDER / "_ci_doctor_preload_rules.py",
)
# Options of CPython after which PYTHONPATH is not read or `site` not run, and those that take a value.
_ISOLATING = {
    "I": "ignores PYTHONPATH",
    "E": "ignores PYTHONPATH",
    "S": "does not run `site`",
}
_WITH_VALUE = ("W", "X")
_LONG_WITH_VALUE = "--check-hash-based-pycs"
_LAST = ("c", "m")
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")


def injected(environ: Mapping[str, str], files: Sequence[Path], **variables: str) -> dict[str, str]:
    """`environ` in which every Python executes `files` at its start, besides those that it executes already."""
    known = filter(None, environ.get(INJECT, "").split(os.pathsep))
    # An empty entry stays: it is the working directory. An empty variable has none.
    there = environ.get("PYTHONPATH")
    path = [entry for entry in there.split(os.pathsep) if entry != str(FOLDER)] if there else []
    return {
        **environ,
        "PYTHONPATH": os.pathsep.join([str(FOLDER), *path]),
        INJECT: os.pathsep.join(dict.fromkeys([*known, *map(str, files)])),
        **variables,
    }


def with_rules(environ: Mapping[str, str], rules: Sequence[PreloadRule]) -> dict[str, str]:
    """`environ` in which every Python preloads by `rules`, besides those that it has already."""
    known = environ.get(RULES, "").split()
    added = dict.fromkeys([*known, *map(format_rule, rules)])
    return injected(environ, _PRELOAD_FILES, **{RULES: " ".join(added)})


def isolation(words: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Why the first Python in the command line `words` will not run what is injected, or None where nothing says so.

    Looks behind `env`, `timeout 5` and their like, into the script of `sh -c`, and at the first line of a script on disk.
    """
    if not words:
        return None
    line = list(words)
    if Path(line[0]).name in _SHELLS and len(line) > 2 and re.fullmatch("-[a-z]*c", line[1]):
        line = line[2].split()
    start = next((index for index, word in enumerate(line) if _is_python(word)), None)
    program = shutil.which(line[0], path=environ.get("PATH")) if line and start != 0 else None
    by_script = [*_interpreter_line(Path(program)), *line] if program else []
    if any(map(_is_python, by_script[: len(by_script) - len(line)])):
        line, start = (
            by_script,
            next(index for index, word in enumerate(by_script) if _is_python(word)),
        )
    if start is None:
        return None
    if Path(line[0]).name == "env" and {"-", "-i", "--ignore-environment"} & {*line[1:start]}:
        return "env -i (a clean environment)"
    return isolating_option(line[start:])


def isolating_option(words: Sequence[str]) -> str | None:
    """The option in a Python command line after which nothing injected runs, as `-I (ignores PYTHONPATH)`, or None."""
    if not words or not _is_python(words[0]):
        return None
    skip = False
    for word in words[1:]:
        if skip or word.startswith("--"):
            skip = word == _LONG_WITH_VALUE
            continue
        if not re.fullmatch("-.+", word):
            return None
        # -W and -X take a value, in the same word or the next; -c and -m end the options.
        flags, last, value = re.split("([WXcm]|$)", word[1:], maxsplit=1)
        found = next((flag for flag in flags if flag in _ISOLATING), None)
        if found:
            return f"-{found} ({_ISOLATING[found]})"
        if last in _LAST:
            return None
        skip = last in _WITH_VALUE and not value
    return None


def _is_python(word: str) -> bool:
    return re.fullmatch(r"python(\d+(\.\d+)?t?)?", Path(word).name) is not None


def _interpreter_line(script: Path) -> list[str]:
    try:
        with script.open("rb") as file:
            first = file.readline(512)
    except OSError:
        return []
    return first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
