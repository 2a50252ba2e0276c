# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: which interpreters a snapshot is about, broken ones too."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_doctor.machine.interpreters import choose_targets


def snapshot_targets(
    pythons: Sequence[str], venvs: Sequence[str], cwd: Path, environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """The interpreters of the job, as `choose_targets` gives them.

    A virtual environment whose Python is gone is one of them: what is left of it is what people want
    to know. Raises UsageError for a named one that never was one.
    """
    directories = _named(pythons, venvs, cwd, environ)
    broken = [directory.absolute() for directory in directories if _is_broken(directory)]
    rest = _without(venvs, broken)
    others = _without(pythons, broken)
    targets = [directory / "bin" / "python" for directory in broken]
    # Without a name that is left, the default is the broken environment itself.
    if rest or others or not broken:
        targets += [target.python for target in choose_targets(others, rest, [cwd], environ)]
    return tuple(targets)


def _without(words: Sequence[str], directories: Sequence[Path]) -> list[str]:
    return [word for word in words if Path(word).absolute() not in directories]


def _named(
    pythons: Sequence[str], venvs: Sequence[str], cwd: Path, environ: Mapping[str, str]
) -> list[Path]:
    """The virtual environments that are meant: the named ones, else the active one, else `.venv`."""
    if pythons or venvs:
        return [Path(word) for word in (*pythons, *venvs)]
    active = environ.get("VIRTUAL_ENV")
    return [Path(active) if active else cwd / ".venv"]


def _is_broken(directory: Path) -> bool:
    has_settings = (directory / "pyvenv.cfg").is_file()
    return has_settings and not (directory / "bin" / "python").exists()
