# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: which Python a command will run, and where it looks for libraries.

Nothing is started.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

# Programs that run the command after their own options, which may have values.
_SCHEDULERS = ("nice", "ionice", "chrt", "taskset", "numactl")
_STARTERS = ("env", "exec", "stdbuf", "setsid", "nohup", "timeout", "time")
WRAPPERS = frozenset((*_SCHEDULERS, *_STARTERS))
_PYTHON = re.compile(r"(?:python|pypy)(\d+(?:\.\d+)*)?")
# What pip writes in front of a path that is too long for a first line, or contains a space.
_EXEC = re.compile(r"exec'?\s+'?\"?(/[^'\"\n]*?python[0-9.]*)['\"\s]")
_HEAD_BYTES = 4096


class Interpreter(Struct, frozen=True, kw_only=True):
    """`python` is the path that is run, `version` such as `3.12`; `directories` in search order."""

    python: Path
    version: str
    directories: tuple[Path, ...]


class UnknownInterpreterError(Exception):
    """It is uncertain which Python a command runs; the text is the reason."""


def interpreter_of(words: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Interpreter:
    """The Python of a command: the word itself, or that of the script's first line.

    Raises UnknownInterpreterError.
    """
    python = _python_of(words, environ, cwd)
    version, sites = _layout(python)
    candidates = list(_pythonpath(environ, cwd))
    candidates += _user_site(python, version, environ)
    candidates += sites
    # A folder that this user may not reach is none for Python; pathlib would raise.
    folders = filter(os.path.isdir, dict.fromkeys(candidates))
    directories = tuple(folders)
    return Interpreter(python=python, version=version, directories=directories)


def _pythonpath(environ: Mapping[str, str], cwd: Path) -> Iterator[Path]:
    for entry in environ.get("PYTHONPATH", "").split(":"):
        if entry:
            yield cwd / entry


def _python_of(words: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Path:
    if not words:
        raise UnknownInterpreterError("there is no command")
    if Path(words[0]).name not in WRAPPERS:
        path = _resolve(words[0], environ, cwd)
        if path is None:
            raise UnknownInterpreterError(f"{words[0]} is not on PATH")
        return _run_by(path, environ, cwd)
    # The first word that is a program: options, their values and `NAME=value` are none.
    for index, word in enumerate(words[1:], start=1):
        if word.startswith("-") or "=" in word:
            continue
        path = _resolve(word, environ, cwd)
        if path is not None and path.is_file():
            return _python_of(words[index:], environ, cwd)
    raise UnknownInterpreterError(f"it is uncertain what {words[0]} runs")


def _resolve(word: str, environ: Mapping[str, str], cwd: Path) -> Path | None:
    if "/" in word:
        path = cwd / word
        return path if path.is_file() else None
    program = shutil.which(word, path=environ.get("PATH", ""))
    return cwd / program if program else None


def _run_by(path: Path, environ: Mapping[str, str], cwd: Path) -> Path:
    """The Python that runs `path`: itself, or the one that its first line names."""
    if _is_python(path):
        return path
    line = _first_line(path)
    if not line.startswith("#!"):
        raise UnknownInterpreterError(
            f"{path.name} is no Python and no script with a first line that names one"
        )
    program = _program_of(path, line[2:].split())
    python = _resolve(program, environ, cwd) if program else None
    if python is None or not _is_python(python):
        raise UnknownInterpreterError(
            f"{path.name} is run by {program or 'nothing'}, which is no Python"
        )
    return python


def _is_python(path: Path) -> bool:
    # pyenv and others install scripts under the name `python`.
    return bool(_PYTHON.fullmatch(path.name)) and not _first_line(path).startswith("#!")


def _program_of(path: Path, words: Sequence[str]) -> str:
    """The program that the `words` of a first line run; empty if they name none."""
    name = Path(words[0]).name if words else ""
    if name == "sh":
        quoted = _EXEC.search(_head(path))
        if quoted:
            return quoted[1]
    if name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES).decode(errors="replace")
    except OSError as error:
        raise UnknownInterpreterError(f"{path} cannot be read: {error.strerror}") from error


def _first_line(path: Path) -> str:
    return _head(path).partition("\n")[0]


def _layout(python: Path) -> tuple[str, list[Path]]:
    """The version and the site directories of `python`.

    They belong to the venv that `python`'s path lies in (PEP 405), else to the file it links to.
    """
    real = python.resolve()
    venv = _venv_of(python)
    if venv is None:
        return _sites(real.parent.parent, real)
    version, sites = _sites(venv, python)
    keys = read_venv_keys(venv) or {}
    if keys.get("include-system-site-packages", "").lower() == "true":
        base = (Path(keys["home"]) / real.name).resolve() if "home" in keys else real
        sites += _sites(base.parent.parent, base)[1]
    return version, sites


def _venv_of(python: Path) -> Path | None:
    for prefix in (python.parent, python.parent.parent):
        if (prefix / "pyvenv.cfg").is_file():
            return prefix
    return None


def read_venv_keys(venv: Path) -> dict[str, str] | None:
    """The keys of pyvenv.cfg, in lower case (PEP 405); None if it cannot be read."""
    try:
        text = (venv / "pyvenv.cfg").read_text(errors="replace")
    except OSError:
        return None
    keys = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            keys[key.strip().lower()] = value.strip()
    return keys


def _sites(prefix: Path, python: Path) -> tuple[str, list[Path]]:
    version = _version_of(prefix, python)
    name = f"python{version}"
    sites = [prefix / lib / name / "site-packages" for lib in ("lib", "lib64")]
    if prefix == Path("/usr"):  # Debian's own layout
        sites.append(Path("/usr/local/lib") / name / "dist-packages")
        sites.append(Path("/usr/lib/python3/dist-packages"))
    # lib64 is often a link to lib.
    unique: dict[Path, Path] = {}
    for site in sites:
        if site.is_dir():
            unique.setdefault(site.resolve(), site)
    return version, list(unique.values())


def _version_of(prefix: Path, python: Path) -> str:
    """Such as `3.12`: by the name of the file, else by the only library directory."""
    match = _PYTHON.fullmatch(python.resolve().name)
    if match and match[1] and "." in match[1]:
        return match[1]
    libraries = [path.name for path in prefix.glob("lib/python3.*") if path.is_dir()]
    if len(libraries) != 1:
        raise UnknownInterpreterError(f"the directories of {python} do not show its version")
    return libraries[0].removeprefix("python")


def _user_site(python: Path, version: str, environ: Mapping[str, str]) -> list[Path]:
    """A user's own site directory; a venv leaves it out (site.py)."""
    base = environ.get("PYTHONUSERBASE")
    if not base and environ.get("HOME"):
        base = f"{environ['HOME']}/.local"
    if not base or environ.get("PYTHONNOUSERSITE") or _venv_of(python) is not None:
        return []
    return [Path(base) / "lib" / f"python{version}" / "site-packages"]
