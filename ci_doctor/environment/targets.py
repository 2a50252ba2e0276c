# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: which interpreters a job's environment is prepared for."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError


class TargetInterpreter(Struct, frozen=True, kw_only=True):
    """A Python to prepare for.

    `why` is how it was chosen, `named` whether the user named it, `own` whether ci-doctor itself is
    installed there.
    """

    python: Path
    why: str
    named: bool
    own: bool


def choose_targets(
    pythons: Sequence[str],
    venvs: Sequence[str],
    projects: Sequence[Path],
    environ: Mapping[str, str],
) -> tuple[TargetInterpreter, ...]:
    """The named interpreters; else `$VIRTUAL_ENV`, the projects' `.venv`, PATH's `python3`.

    An empty tuple if none of these exists. Raises UsageError for a named one that does not exist.
    """
    named = [(_named_python(word, environ), f"--python {word}") for word in pythons]
    for word in venvs:
        option = f"--venv {word}"
        named.append((_venv_python(Path(word), option), option))
    # Each once, with the first reason for it.
    unique: dict[Path, str] = {}
    for python, why in named or _default(projects, environ):
        unique.setdefault(python, why)
    return tuple(
        TargetInterpreter(python=python, why=why, named=bool(named), own=_is_own(python))
        for python, why in unique.items()
    )


def _named_python(word: str, environ: Mapping[str, str]) -> Path:
    path = Path(word)
    if path.is_dir():
        return _venv_python(path, f"--python {word}")
    executable = shutil.which(word, path=environ.get("PATH"))
    if executable is None:
        raise UsageError(
            f"--python {word}: no such interpreter",
            hint="name an existing Python, such as .venv/bin/python",
        )
    return _absolute(Path(executable))


def _venv_python(directory: Path, option: str) -> Path:
    python = directory / "bin" / "python"
    if not python.exists():
        raise UsageError(
            f"{option}: {python} does not exist", hint=f"make it first: python3 -m venv {directory}"
        )
    return _absolute(python)


def _default(projects: Sequence[Path], environ: Mapping[str, str]) -> list[tuple[Path, str]]:
    active = environ.get("VIRTUAL_ENV")
    if active:
        return [(_venv_python(Path(active), "$VIRTUAL_ENV"), "$VIRTUAL_ENV")]
    local = []
    for project in projects:
        venv = project / ".venv"
        if (venv / "bin" / "python").exists():
            local.append((_venv_python(venv, str(venv)), f"{os.path.relpath(venv)} of the project"))
    if local:
        return local
    executable = shutil.which("python3", path=environ.get("PATH"))
    return [(_absolute(Path(executable)), "python3 on PATH")] if executable else []


def _absolute(path: Path) -> Path:
    # Not resolve(): a venv's python is a symlink, and what it points to is another environment.
    return Path(os.path.abspath(path))  # noqa: PTH100


def _is_own(python: Path) -> bool:
    # The environment that the path names, not what the link in its bin points to.
    return os.path.realpath(python.parent.parent) == os.path.realpath(sys.prefix)
