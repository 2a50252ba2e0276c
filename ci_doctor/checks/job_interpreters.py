# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: the interpreters of the job, those of broken environments too."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_doctor.checks.python.presence import absence, is_file, is_folder
from ci_doctor.environment.targets import TargetInterpreter, choose_targets


def job_interpreters(
    pythons: Sequence[str], venvs: Sequence[str], cwd: Path, environ: Mapping[str, str]
) -> tuple[TargetInterpreter, ...]:
    """As choose_targets. An environment whose Python is gone is one of them: a check says so.

    Raises UsageError for a named one of which nothing exists.
    """
    if not pythons and not venvs:
        return _default(cwd, environ)
    broken = []
    sound_pythons = []
    sound_venvs = []
    for word in pythons:
        python = cwd / word
        if python.is_symlink() and absence(python) is not None:
            broken.append(_target(python, f"--python {word}", named=True))
        else:
            sound_pythons.append(word)
    for word in venvs:
        if _is_broken(cwd / word):
            broken.append(_target(_python_of(cwd / word), f"--venv {word}", named=True))
        else:
            sound_venvs.append(word)
    if not sound_pythons and not sound_venvs:
        return tuple(broken)
    return (*choose_targets(sound_pythons, sound_venvs, [cwd], environ), *broken)


def _default(cwd: Path, environ: Mapping[str, str]) -> tuple[TargetInterpreter, ...]:
    """`$VIRTUAL_ENV` and the project's `.venv` even if they are broken; else what there is."""
    active = environ.get("VIRTUAL_ENV")
    if active and absence(_python_of(cwd / active)) is not None:
        return (_target(_python_of(cwd / active), "$VIRTUAL_ENV", named=False),)
    if not active and _is_broken(cwd / ".venv"):
        return (_target(_python_of(cwd / ".venv"), ".venv of the project", named=False),)
    return choose_targets((), (), [cwd], environ)


def _is_broken(venv: Path) -> bool:
    """Whether `venv` is, or was, an environment, and has no Python that exists."""
    if absence(_python_of(venv)) is None:
        return False
    is_private = is_folder(venv) and not os.access(venv, os.X_OK)
    return is_private or is_file(venv / "pyvenv.cfg") or is_folder(venv / "bin")


def _python_of(venv: Path) -> Path:
    return venv / "bin" / "python"


def _target(python: Path, why: str, *, named: bool) -> TargetInterpreter:
    # Not resolve(): the link leads nowhere.
    absolute = Path(os.path.abspath(python))  # noqa: PTH100
    return TargetInterpreter(python=absolute, why=why, named=named, own=False)
