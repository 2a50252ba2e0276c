# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: the interpreters that a user named, else those of the job."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.machine.interpreters import choose_targets
from ci_doctor.preload.result import Refused


class Interpreters(Struct, frozen=True, kw_only=True):
    """Words for `--python` and `--venv`; `projects` are directories whose `.venv` is a default."""

    pythons: tuple[str, ...] = ()
    venvs: tuple[str, ...] = ()
    projects: tuple[str, ...] = (".",)


def find_interpreters(
    named: Interpreters, environ: Mapping[str, str] = os.environ
) -> list[Path | Refused]:
    """The interpreters named, else `$VIRTUAL_ENV`, a project's `.venv` or the `python3` on PATH.

    A named one that does not exist is a refusal among the others. Raises UsageError if there is
    none.
    """
    if not named.pythons and not named.venvs:
        return _defaults(named, environ)
    interpreters: list[Path | Refused] = []
    # One by one, so that one that is missing does not hide the others.
    for word in named.pythons:
        interpreters += _named(Interpreters(pythons=(word,)), word, environ)
    for word in named.venvs:
        interpreters += _named(Interpreters(venvs=(word,)), word, environ)
    return interpreters


def _defaults(named: Interpreters, environ: Mapping[str, str]) -> list[Path | Refused]:
    targets = choose_targets((), (), list(map(Path, named.projects)), environ)
    if not targets:
        raise UsageError("no interpreter found", hint="name one: --venv DIR or --python PY")
    return [target.python for target in targets]


def _named(one: Interpreters, word: str, environ: Mapping[str, str]) -> list[Path | Refused]:
    try:
        targets = choose_targets(one.pythons, one.venvs, (), environ)
    except UsageError as error:
        return [Refused(python=Path(word), error=error)]
    return [target.python for target in targets]
