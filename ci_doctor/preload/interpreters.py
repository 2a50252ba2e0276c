# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: the interpreters that a user named, else those of the job."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.environment.targets import choose_targets
from ci_doctor.errors import UsageError
from ci_doctor.preload.result import Refused


class Interpreters(Struct, frozen=True, kw_only=True):
    """Words for `--python` and `--venv`; `projects` are the directories whose `.venv` is a default."""

    pythons: tuple[str, ...] = ()
    venvs: tuple[str, ...] = ()
    projects: tuple[str, ...] = (".",)


def find_interpreters(
    named: Interpreters, environ: Mapping[str, str] = os.environ
) -> list[Path | Refused]:
    """The interpreters named, else `$VIRTUAL_ENV`, a project's `.venv` or the `python3` on PATH.

    A named one that does not exist is a refusal among the others. Raises UsageError if there is none.
    """
    projects = [Path(project) for project in named.projects]
    if not named.pythons and not named.venvs:
        defaults = [target.python for target in choose_targets((), (), projects, environ)]
        if not defaults:
            raise UsageError("no interpreter found", hint="name one: --venv DIR or --python PY")
        return list(defaults)
    words: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    words += [((python,), ()) for python in named.pythons]
    words += [((), (venv,)) for venv in named.venvs]
    interpreters: list[Path | Refused] = []
    # One by one, so that one that is missing does not hide the others.
    for pythons, venvs in words:
        try:
            targets = choose_targets(pythons, venvs, projects, environ)
        except UsageError as error:
            interpreters.append(Refused(python=Path(*pythons, *venvs), error=error))
        else:
            interpreters += [target.python for target in targets]
    return interpreters
