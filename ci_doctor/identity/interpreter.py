# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: which Python a command will run, and where that Python looks for libraries. Nothing is started."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

# Programs that run the command behind their own options, which may have values.
WRAPPERS = frozenset(
    {
        "env",
        "exec",
        "nice",
        "ionice",
        "chrt",
        "taskset",
        "numactl",
        "stdbuf",
        "setsid",
        "nohup",
        "timeout",
        "time",
    }
)
_PYTHON = re.compile(r"(?:python|pypy)(\d+(?:\.\d+)*)?")
_LINE = 4096


class Interpreter(Struct, frozen=True, kw_only=True):
    """`python` is the path by which it is run, `version` such as `3.12`, and `directories` are searched in this order."""

    python: Path
    version: str
    directories: tuple[Path, ...]


class UnknownInterpreterError(Exception):
    """It cannot be told which Python a command runs; the text says why."""


def interpreter_of(words: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Interpreter:
    """The Python of a command: the word itself, or that of the script's first line. Raises UnknownInterpreterError."""
    python = _python_of(words, environ, cwd)
    version, directories = _layout(python)
    extra = [cwd / entry for entry in environ.get("PYTHONPATH", "").split(":") if entry]
    found = [*extra, *_user_site(python, version, environ), *directories]
    return Interpreter(
        python=python,
        version=version,
        directories=tuple(dict.fromkeys(each for each in found if each.is_dir())),
    )


def _python_of(words: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Path:
    if not words:
        raise UnknownInterpreterError("there is no command")
    if Path(words[0]).name not in WRAPPERS:
        path = _resolve(words[0], environ, cwd)
        if path is None:
            raise UnknownInterpreterError(f"{words[0]} is not on PATH")
        return _run_by(path, environ, cwd)
    for index, word in enumerate(words[1:], start=1):
        path = None if word.startswith("-") or "=" in word else _resolve(word, environ, cwd)
        if path is not None and path.is_file():
            return _python_of(words[index:], environ, cwd)
    raise UnknownInterpreterError(f"what {words[0]} runs cannot be told")


def _resolve(word: str, environ: Mapping[str, str], cwd: Path) -> Path | None:
    if "/" in word:
        path = cwd / word
        return path if path.is_file() else None
    found = shutil.which(word, path=environ.get("PATH", ""))
    return cwd / found if found else None


def _run_by(path: Path, environ: Mapping[str, str], cwd: Path) -> Path:
    if _PYTHON.fullmatch(path.name) and not _first_line(path).startswith("#!"):
        return path
    line = _first_line(path)
    if not line.startswith("#!"):
        raise UnknownInterpreterError(
            f"{path.name} is no Python and no script with a first line that names one"
        )
    # pip writes this in front of a path that is too long for a first line, or holds a space.
    words = line[2:].split()
    if words and Path(words[0]).name == "sh":
        quoted = re.search(r"exec'?\s+'?\"?(/[^'\"\n]*?python[0-9.]*)['\"\s]", _head(path))
        words = [quoted[1]] if quoted else words
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    found = _resolve(words[0], environ, cwd) if words else None
    if found is None or not _PYTHON.fullmatch(found.name) or _first_line(found).startswith("#!"):
        raise UnknownInterpreterError(
            f"{path.name} is run by {words[0] if words else 'nothing'}, which is no Python"
        )
    return found


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LINE).decode(errors="replace")
    except OSError as error:
        raise UnknownInterpreterError(f"{path} cannot be read: {error.strerror}") from error


def _first_line(path: Path) -> str:
    return _head(path).partition("\n")[0]


def _layout(python: Path) -> tuple[str, list[Path]]:
    """The version and site directories: those of the venv that `python`'s path lies in (PEP 405), else of what it is."""
    for prefix in (python.parent, python.parent.parent):
        if (prefix / "pyvenv.cfg").is_file():
            keys = dict(_keys(prefix / "pyvenv.cfg"))
            version, own = _sites(prefix, python)
            base = (
                Path(keys["home"]) / python.resolve().name if "home" in keys else python.resolve()
            )
            whole = keys.get("include-system-site-packages", "").lower() == "true"
            return version, [
                *own,
                *(_sites(base.resolve().parent.parent, base.resolve())[1] if whole else []),
            ]
    real = python.resolve()
    return _sites(real.parent.parent, real)


def _keys(path: Path) -> Iterator[tuple[str, str]]:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            yield key.strip().lower(), value.strip()


def _sites(prefix: Path, python: Path) -> tuple[str, list[Path]]:
    named = _PYTHON.fullmatch(python.resolve().name)
    version = named[1] if named and named[1] and "." in named[1] else ""
    if not version:
        found = sorted(
            path.name.removeprefix("python")
            for path in prefix.glob("lib/python3.*")
            if path.is_dir()
        )
        if len(found) != 1:
            raise UnknownInterpreterError(
                f"the version of {python} cannot be told from its directories"
            )
        version = found[0]
    name = f"python{version}"
    sites = [prefix / lib / name / "site-packages" for lib in ("lib", "lib64")]
    if prefix == Path("/usr"):  # Debian's own layout
        sites += [
            Path("/usr/local/lib") / name / "dist-packages",
            Path("/usr/lib/python3/dist-packages"),
        ]
    unique: dict[Path, Path] = {}
    for site in sites:
        if site.is_dir():
            unique.setdefault(site.resolve(), site)
    return version, list(unique.values())


def _user_site(python: Path, version: str, environ: Mapping[str, str]) -> list[Path]:
    """A user's own site directory: in no venv, which leaves it out (site.py)."""
    in_venv = any(
        (prefix / "pyvenv.cfg").is_file() for prefix in (python.parent, python.parent.parent)
    )
    base = environ.get("PYTHONUSERBASE") or (
        f"{environ['HOME']}/.local" if environ.get("HOME") else ""
    )
    if in_venv or not base or environ.get("PYTHONNOUSERSITE"):
        return []
    return [Path(base) / "lib" / f"python{version}" / "site-packages"]
