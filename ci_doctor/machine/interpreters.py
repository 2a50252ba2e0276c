# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which Python interpreters a job has, where each looks for packages, and their starts.

Most is read from files: an interpreter is started only by `start_python` and `ask`, for a limited time.
"""

import ast
import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.system.processes.limited_runs import LimitedRuns, SeparateRun

PROBE: Final = Path(__file__).parent / "stub" / "interpreter_probe.py"
# Programs that run the command after their own options, which may have values.
_SCHEDULERS = ("nice", "ionice", "chrt", "taskset", "numactl")
_STARTERS = ("env", "exec", "stdbuf", "setsid", "nohup", "timeout", "time")
WRAPPERS = frozenset((*_SCHEDULERS, *_STARTERS))
_PYTHON = re.compile(r"(?:python|pypy)(\d+(?:\.\d+)*)?")
# What pip writes in front of a path that is too long for a first line, or contains a space.
_EXEC = re.compile(r"exec'?\s+'?\"?(/[^'\"\n]*?python[0-9.]*)['\"\s]")
_HEAD_BYTES = 4096
_VENV_VERSION = re.compile(r"\d+\.\d+")


class TargetInterpreter(Struct, frozen=True, kw_only=True):
    """A Python to prepare for.

    `why` is how it was chosen, `named` whether the user named it, `own` whether ci-doctor itself is
    installed there.
    """

    python: Path
    why: str
    named: bool
    own: bool


class Interpreter(Struct, frozen=True, kw_only=True):
    """`python` is the path that is run, `version` such as `3.12`; `directories` in search order."""

    python: Path
    version: str
    directories: tuple[Path, ...]


class UnknownInterpreterError(Exception):
    """It is uncertain which Python a command runs; the text is the reason."""


class VenvFiles(Struct, frozen=True, kw_only=True):
    """What lies around an interpreter at `prefix`/bin/python.

    `keys` are those of pyvenv.cfg, in lower case; None without that file. `libraries` are the
    versions that have a directory of packages, such as `3.12`.
    """

    prefix: Path
    keys: Mapping[str, str] | None
    has_activate: bool
    libraries: tuple[str, ...]

    @property
    def is_venv(self) -> bool:
        """Whether it is, or was, a virtual environment."""
        return self.keys is not None or self.has_activate

    @property
    def version(self) -> str | None:
        """The version that it was made for, such as `3.12`; virtualenv and uv have another key."""
        keys = self.keys or {}
        match = _VENV_VERSION.match(keys.get("version") or keys.get("version_info") or "")
        return match[0] if match else None


class PythonState(Struct, frozen=True, kw_only=True):
    """What the probe prints.

    `version` is such as `3.12.4`. `path` is sys.path without the directory of the program. `hideable`
    are modules of the standard library that an earlier file on sys.path replaces. `suffixes` are the
    endings of extension modules. `glibc` is such as `glibc 2.36`, and empty elsewhere.
    """

    version: str
    full_version: str
    implementation: str
    cache_tag: str
    executable: str
    prefix: str
    base_prefix: str
    path: list[str]
    stdlib: str
    is_safe_path: bool
    optimize: int
    user_dir: str | None
    suffixes: list[str]
    glibc: str
    machine: str
    hideable: list[str]

    @property
    def minor_version(self) -> str:
        """Such as `3.12`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def is_venv(self) -> bool:
        """Whether it is a virtual environment (PEP 405)."""
        return self.prefix != self.base_prefix


def choose_targets(
    pythons: Sequence[str],
    venvs: Sequence[str],
    projects: Sequence[Path],
    environ: Mapping[str, str],
    *,
    broken: bool = False,
) -> tuple[TargetInterpreter, ...]:
    """The named interpreters; else `$VIRTUAL_ENV`, the projects' `.venv`, PATH's `python3`.

    An empty tuple if none of these exists. With `broken`, an environment whose Python is gone is one
    of them, for whoever says so. Raises UsageError for a named one of which nothing exists.
    """
    named = [(_named_python(word, environ, broken=broken), f"--python {word}") for word in pythons]
    for word in venvs:
        option = f"--venv {word}"
        named.append((_venv_python(Path(word), option, broken=broken), option))
    # Each once, with the first reason for it.
    unique: dict[Path, str] = {}
    for python, why in named or _default(projects, environ, broken=broken):
        unique.setdefault(python, why)
    return tuple(
        TargetInterpreter(python=python, why=why, named=bool(named), own=_is_own(python))
        for python, why in unique.items()
    )


def _named_python(word: str, environ: Mapping[str, str], *, broken: bool) -> Path:
    path = Path(word)
    if is_folder(path):
        return _venv_python(path, f"--python {word}", broken=broken)
    if broken and path.is_symlink() and absence(path) is not None:
        return _absolute(path)
    executable = shutil.which(word, path=environ.get("PATH"))
    if executable is None:
        raise UsageError(
            f"--python {word}: no such interpreter",
            hint="name an existing Python, such as .venv/bin/python",
        )
    return _absolute(Path(executable))


def _venv_python(directory: Path, option: str, *, broken: bool) -> Path:
    python = directory / "bin" / "python"
    if absence(python) is not None and not (broken and _was_environment(directory)):
        raise UsageError(
            f"{option}: {python} does not exist", hint=f"make it first: python3 -m venv {directory}"
        )
    return _absolute(python)


def _default(
    projects: Sequence[Path], environ: Mapping[str, str], *, broken: bool
) -> list[tuple[Path, str]]:
    active = environ.get("VIRTUAL_ENV")
    if active:
        python = Path(active, "bin", "python")
        if not broken:
            python = _venv_python(Path(active), "$VIRTUAL_ENV", broken=False)
        return [(_absolute(python), "$VIRTUAL_ENV")]
    local = []
    for project in projects:
        venv = project / ".venv"
        if absence(venv / "bin" / "python") is None or (broken and _was_environment(venv)):
            local.append(
                (_absolute(venv / "bin" / "python"), f"{os.path.relpath(venv)} of the project")
            )
    if local:
        return local
    executable = shutil.which("python3", path=environ.get("PATH"))
    return [(_absolute(Path(executable)), "python3 on PATH")] if executable else []


def _was_environment(venv: Path) -> bool:
    """Whether `venv` is, or was, an environment."""
    is_private = is_folder(venv) and not os.access(venv, os.X_OK)
    return is_private or is_file(venv / "pyvenv.cfg") or is_folder(venv / "bin")


def _absolute(path: Path) -> Path:
    # Not resolve(): a venv's python is a symlink, and what it points to is another environment.
    return Path(os.path.abspath(path))  # noqa: PTH100


def _is_own(python: Path) -> bool:
    # The environment that the path names, not what the link in its bin points to.
    return os.path.realpath(python.parent.parent) == os.path.realpath(sys.prefix)


def interpreter_of(words: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Interpreter:
    """The Python of a command: the word itself, or that of the script's first line.

    Raises UnknownInterpreterError.
    """
    python = _python_of(words, environ, cwd)
    version, sites = _layout(python)
    entries = environ.get("PYTHONPATH", "").split(":")
    candidates = [cwd / entry for entry in entries if entry]
    candidates += _user_site(python, version, environ)
    candidates += sites
    # A folder that this user may not reach is none for Python; pathlib would raise.
    return Interpreter(
        python=python,
        version=version,
        directories=tuple(filter(os.path.isdir, dict.fromkeys(candidates))),
    )


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
    prefixes = (python.parent, python.parent.parent)
    return next((prefix for prefix in prefixes if (prefix / "pyvenv.cfg").is_file()), None)


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


def read_venv_files(python: Path) -> VenvFiles:
    """The files around `python`, by its path and not by what it links to."""
    prefix = python.parent.parent
    sites = sorted(prefix.glob("lib/python3.*/site-packages"))
    return VenvFiles(
        prefix=prefix,
        keys=read_venv_keys(prefix),
        has_activate=is_file(python.parent / "activate"),
        libraries=tuple(site.parent.name.removeprefix("python") for site in sites),
    )


# pathlib raises PermissionError for a path below a directory that may not be searched.
def absence(path: Path | str) -> str | None:
    """Why a path leads to nothing, as a clause; None if it leads to a file or a directory."""
    try:
        os.stat(path)  # noqa: PTH116 - a path may be text
    except (FileNotFoundError, NotADirectoryError):
        return "does not exist"
    except OSError as error:
        return f"cannot be reached ({error.strerror})"
    return None


def is_file(path: Path | str) -> bool:
    """Whether a file is there, and can be reached."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path | str) -> bool:
    """Whether a directory is there, and can be reached."""
    return os.path.isdir(path)  # noqa: PTH112


def start_python(
    run: Callable[[Sequence[str]], SeparateRun], python: Path, *options: str
) -> tuple[SeparateRun, PythonState | None]:
    """Start `python` with the probe, and how it was started; None if it did not say.

    `run` runs a program for a limited time. Raises OSError if it cannot be started.
    """
    ran = run([str(python), *options, str(PROBE)])
    return ran, read_state(ran.stdout) if ran.exit_code == 0 else None


def locate_python(
    word: str,
    environ: Mapping[str, str],
    cwd: Path,
    run: Callable[[Sequence[str]], SeparateRun],
) -> Interpreter:
    """As `interpreter_of`; a script by the name of python, such as pyenv's, is started to find it.

    Raises UnknownInterpreterError, and OSError if it cannot be started.
    """
    try:
        return interpreter_of([word], environ, cwd)
    except UnknownInterpreterError:
        _, state = start_python(run, Path(word))
        if state is None:
            raise
        # By its own word, and not by its files: the script may have set PYTHONPATH.
        own = (
            entry
            for entry in state.path
            if not entry.startswith(state.stdlib) or "-packages" in entry
        )
        directories = tuple(Path(entry) for entry in own if entry and is_folder(entry))
        return Interpreter(
            python=Path(state.executable), version=state.minor_version, directories=directories
        )


def ask(
    python: Path, *arguments: str, timeout_s: float, environment: Mapping[str, str]
) -> SeparateRun:
    """Run `python` with `arguments` in a session of its own, which is stopped after `timeout_s`.

    Raises UsageError if it cannot be started.
    """
    try:
        return LimitedRuns().run(
            [str(python), *arguments], cwd=Path(), environ=environment, timeout_s=timeout_s
        )
    except OSError as error:
        raise UsageError(
            f"cannot run {python}: {error.strerror or error}",
            hint="name a Python interpreter, such as .venv/bin/python",
        ) from error


def clean_environment(
    environment: Mapping[str, str], *, keep: tuple[str, ...] = ()
) -> dict[str, str]:
    """`environment` without PYTHON* (except `keep`) and without our own switches.

    The former change how Python starts, the latter would make the shim or the recorder act.
    """
    switches = ("PYTHON", "CI_DOCTOR_PRELOAD", "CI_DOCTOR_INJECT", "CI_DOCTOR_IMPORT_RACE")
    return {
        name: value
        for name, value in environment.items()
        if name in keep or not name.startswith(switches)
    }


def read_state(stdout: str) -> PythonState | None:
    """The state in the probe's output, among what start files print; None if it printed none."""
    for line in reversed(stdout.splitlines()):
        if line.startswith("{"):
            with contextlib.suppress(ValueError, TypeError, SyntaxError, msgspec.ValidationError):
                return msgspec.convert(ast.literal_eval(line), decodable(PythonState))
    return None
