# SPDX-License-Identifier: Apache-2.0
"""Reads directories: whether the scripts that services name are there, before anything is started."""

import difflib
import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.services.misuse import file_name
from ci_doctor.services.port_names import port_names
from ci_doctor.services.spec import FilledSpec, LaunchContext, ServiceSpec, fill_spec

_ANY_PORT = 1


class _Interpreter(Struct, frozen=True):
    """How an interpreter finds its script.

    `alone` matches options without a value, `with_value` options whose value is the next word. Any
    other option may bring its program along (`-c`, `-m`, `-e`), and then no script is looked for.
    `suffixes` are what it adds to a name that is no file. `searches`: it looks for a name without a
    slash on PATH too.
    """

    name: re.Pattern[str]
    alone: re.Pattern[str]
    with_value: Collection[str] = ()
    suffixes: tuple[str, ...] = ()
    searches: bool = False


_INTERPRETERS = (
    _Interpreter(
        re.compile(r"(?:python|pypy)[\d.]*"), re.compile(r"-[bBdEhiIOPqsSuvVx]+"), ("-W", "-X")
    ),
    _Interpreter(
        re.compile(r"bash|sh|dash|ksh|zsh"),
        re.compile(r"[-+][abefhklmnptuvxBCEHPT]+|--(?:norc|noprofile|posix|login|verbose)"),
        ("-o", "+o", "-O", "+O"),
        # POSIX, `sh`, command_file; not all shells do it.
        searches=True,
    ),
    _Interpreter(
        re.compile(r"node|nodejs"),
        re.compile(r"--(?:inspect|trace|no-)[\w=-]*"),
        suffixes=(".js", ".json", ".node"),
    ),
    _Interpreter(re.compile(r"perl|ruby"), re.compile(r"-[wW]")),
)


def script_of(words: Sequence[str]) -> str | None:
    """The file that an interpreter is given to run; None if the words do not name one for sure."""
    interpreter = _interpreter(words[0]) if words else None
    if interpreter is None:
        return None
    index = 1
    while index < len(words):
        word = words[index]
        if word in interpreter.with_value:
            index += 2
        elif word == "--":
            index += 1
            break
        elif interpreter.alone.fullmatch(word):
            index += 1
        elif word.startswith(("-", "+")) or not word:
            return None
        else:
            break
    return words[index] if index < len(words) and words[index] != "-" else None


def _interpreter(word: str) -> _Interpreter | None:
    name = file_name(word)
    for interpreter in _INTERPRETERS:
        if interpreter.name.fullmatch(name):
            return interpreter
    return None


def check_scripts(
    specs: Mapping[str, ServiceSpec],
    order: Sequence[str],
    context: LaunchContext,
    elsewhere: Collection[str] = (),
) -> None:
    """Raises UsageError with a hint if a script of a service in `order` is not there.

    A service with needs may be waiting for one that makes its script. `elsewhere` are the words of
    commands that are known to run. A script that they name, in another directory perhaps, is no
    typing error, if there is a directory that it could be in.
    """
    names = {file_name(word) for word in elsewhere}
    ports = dict.fromkeys(port_names(specs, order), _ANY_PORT)
    for name in order:
        spec = specs[name]
        filled = fill_spec(spec, context, ports, name)
        script = script_of(filled.words)
        if script is None or spec.needs or _is_there(filled, script):
            continue
        path = filled.cwd / script
        if file_name(script) in names and path.parent.is_dir():
            continue
        raise UsageError(
            f'service "{name}": {Path(filled.words[0]).name} is to run {script}, and there is '
            f"no {path}",
            hint=_hint(path),
        )


def _is_there(filled: FilledSpec, script: str) -> bool:
    """Whether the interpreter of a service finds its script."""
    interpreter = _interpreter(filled.words[0])
    assert interpreter is not None  # noqa: S101 - there is a script
    path = filled.cwd / script
    if os.path.lexists(path):
        return True
    if interpreter.searches and "/" not in script:
        # Readable is enough for a shell.
        return shutil.which(script, os.R_OK, filled.env.get("PATH")) is not None
    return any(os.path.lexists(f"{path}{suffix}") for suffix in interpreter.suffixes)


def _hint(path: Path) -> str:
    advice = "check the path; a relative one begins at the service's cwd"
    try:
        names = sorted(os.listdir(path.parent))  # noqa: PTH208 - only names are needed
    except OSError:
        return advice
    close = difflib.get_close_matches(path.name, names, n=1)
    if close:
        return f"did you mean `{close[0]}`? {advice}"
    return advice
