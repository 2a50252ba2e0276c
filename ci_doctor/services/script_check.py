# SPDX-License-Identifier: Apache-2.0
"""Reads directories: whether the scripts that services name are there, before anything is started."""

import difflib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.services.spec import LaunchContext, ServiceSpec, fill_spec

_ANY_PORT = 1


class _Interpreter(Struct, frozen=True):
    """How an interpreter finds its script.

    `alone` matches options without a value, `with_value` options whose value is the next word. Any
    other option may bring its program along (`-c`, `-m`, `-e`), and then no script is looked for.
    """

    name: re.Pattern[str]
    alone: re.Pattern[str]
    with_value: Collection[str] = ()


_INTERPRETERS = (
    _Interpreter(
        re.compile(r"(?:python|pypy)[\d.]*"), re.compile(r"-[bBdEhiIOPqsSuvVx]+"), ("-W", "-X")
    ),
    _Interpreter(
        re.compile(r"bash|sh|dash|ksh|zsh"),
        re.compile(r"[-+][abefhklmnptuvxBCEHPT]+|--(?:norc|noprofile|posix|login|verbose)"),
        ("-o", "+o", "-O", "+O"),
    ),
    _Interpreter(re.compile(r"node|nodejs"), re.compile(r"--(?:inspect|trace|no-)[\w=-]*")),
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
    name = word.rpartition("/")[2]
    for interpreter in _INTERPRETERS:
        if interpreter.name.fullmatch(name):
            return interpreter
    return None


def check_scripts(
    specs: Mapping[str, ServiceSpec],
    order: Sequence[str],
    context: LaunchContext,
    elsewhere: Collection[tuple[str, ...]] = (),
) -> None:
    """Raises UsageError with a hint if a script of a service in `order` is not there.

    A service with needs may be waiting for one that makes its script. Commands in `elsewhere`, word
    for word, are known to run where their script is: that it is missing here is no typing error.
    """
    for name in order:
        spec = specs[name]
        if spec.needs or tuple(spec.words()) in elsewhere:
            continue
        filled = fill_spec(spec, context, dict.fromkeys(order, _ANY_PORT), name)
        script = script_of(filled.words)
        if script is None:
            continue
        path = filled.cwd / script
        if not os.path.lexists(path):
            raise UsageError(
                f'service "{name}": {Path(filled.words[0]).name} is to run {script}, and there is '
                f"no {path}",
                hint=_hint(path),
            )


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
