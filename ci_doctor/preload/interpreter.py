# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which interpreters are meant, what each is, and one run of it in a time limit."""

import contextlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.errors import CiDoctorError, InfraError, PreparationError, UsageError
from ci_doctor.machine.interpreters import ask, choose_targets, clean_environment
from ci_doctor.model.facts.preparing import Refusal
from ci_doctor.model.outcome import ErrorKind, Failure, Row, Table, Verdict, row
from ci_doctor.system.files.access import make_directory
from ci_doctor.system.processes.limited_runs import SeparateRun

T = TypeVar("T")
OLDEST = (3, 8)
PROBE_TIMEOUT_S = 60.0

# Prints the fields of TargetProbe; in old syntax, so that an old interpreter can print its version.
_PROBE = """
import json, os, site, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
    "prefix": sys.prefix,
    "base_prefix": sys.base_prefix,
    "purelib": sysconfig.get_path("purelib"),
    "platlib": sysconfig.get_path("platlib"),
    "site_dirs": site.getsitepackages(),
    "sys_path": sys.path,
    "externally_managed": os.path.isfile(
        os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    ),
}))
"""


# With several refusals of different kinds: what the user can correct at once, then what is a
# finding.
_WORST_FIRST: Final = (
    (ErrorKind.USAGE, None, UsageError),
    (ErrorKind.PREPARATION, Verdict.FAILED, PreparationError),
    (ErrorKind.INFRA, Verdict.INFRA, InfraError),
)


def read_answer(run: SeparateRun, kind: type[T]) -> T | None:
    """The last line on stdout as JSON: a program's result, since a sitecustomize may print first.

    None if it is not one.
    """
    lines = run.stdout.strip().splitlines() or [""]
    try:
        # Not msgspec's reader: it refuses the surrogates of a path that is no UTF-8 (PEP 383).
        return msgspec.convert(json.loads(lines[-1]), decodable(kind))
    except (ValueError, RecursionError):
        return None


class Target(Struct, frozen=True, kw_only=True):
    """An interpreter and the site directory that its shim belongs in.

    `version` has two numbers if the interpreter was not started.
    """

    python: Path
    version: tuple[int, ...]
    site_dir: Path
    externally_managed: bool
    writable: bool

    @property
    def version_text(self) -> str:
        """Such as `3.12.1`, or `3.12`."""
        return ".".join(map(str, self.version))


class _Probe(Struct, frozen=True, kw_only=True):
    """What an interpreter reports of itself; paths in its own spelling."""

    version: tuple[int, int, int]
    implementation: str
    prefix: str
    base_prefix: str
    purelib: str
    platlib: str
    site_dirs: tuple[str, ...]
    sys_path: tuple[str, ...]
    externally_managed: bool


def inspect_interpreter(python: Path, *, timeout_s: float = PROBE_TIMEOUT_S) -> Target:
    """The target for `python`, an interpreter or the directory of a virtual environment.

    Raises UsageError if it is no CPython >= 3.8 or reads no site directory, InfraError if it does
    not answer.
    """
    path = python / "bin" / "python" if python.is_dir() else python
    executable = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would leave the venv
    # -B: what its `.pth` files import must not leave bytecode behind.
    options = ("-I", "-B", "-c", _PROBE)
    answer = ask(
        executable, *options, timeout_s=timeout_s, environment=clean_environment(os.environ)
    )
    if answer.exit_code is None:
        raise InfraError(
            f"{executable} did not answer within {timeout_s:.0f} s",
            hint=f"run `{executable} -I -c pass`",
        )
    probe = read_answer(answer, _Probe)
    if probe is None:
        raise UsageError(
            f"{executable} is not a Python >= 3.8 interpreter: {answer.last_words}",
            hint="name a Python interpreter, such as .venv/bin/python",
        )
    version = ".".join(map(str, probe.version))
    if probe.implementation != "cpython" or probe.version < OLDEST:
        raise UsageError(
            f"{executable} is {probe.implementation} {version}; "
            "a preload shim needs CPython 3.8 or later",
            hint="name another interpreter",
        )
    site_dir = choose_site_dir((probe.purelib, probe.platlib), probe.site_dirs, probe.sys_path)
    if site_dir is None:
        named = ", ".join(probe.site_dirs) or "it names none"
        raise UsageError(
            f"{executable} reads no site directory ({named})",
            hint="make a virtual environment with it, and name that",
        )
    is_venv = probe.prefix != probe.base_prefix
    return Target(
        python=executable,
        version=probe.version,
        site_dir=Path(site_dir),
        # PEP 668 is about the interpreter itself; a virtual environment created from it is not
        # affected.
        externally_managed=probe.externally_managed and not is_venv,
        writable=_is_writable(site_dir),
    )


def choose_site_dir(
    preferred: Sequence[str], site_dirs: Sequence[str], sys_path: Sequence[str]
) -> str | None:
    """The first of `preferred`, `site_dirs` that is a site directory and on `sys_path`, or None.

    `site` reads `.pth` files from site directories only, and what they import must be on sys.path.
    The first site directory is not always right: it is lib64 on some systems and sys.prefix on
    Windows.
    """
    usable = set(map(os.path.realpath, site_dirs)) & set(map(os.path.realpath, sys_path))
    entries = (*preferred, *site_dirs)
    return next((entry for entry in entries if os.path.realpath(entry) in usable), None)


def _is_writable(site_dir: str) -> bool:
    """Whether this user may write there, and somebody should.

    Root may write anywhere. A directory with mode 0555 is meant to stay as it is.
    """
    if not os.access(site_dir, os.W_OK | os.X_OK):
        return False
    return bool(Path(site_dir).stat().st_mode & 0o222)


class Interpreters(Struct, frozen=True, kw_only=True):
    """Words for `--python` and `--venv`; `projects` are directories whose `.venv` is a default."""

    pythons: tuple[str, ...] = ()
    venvs: tuple[str, ...] = ()
    projects: tuple[str, ...] = (".",)


class Refused(Struct, frozen=True, kw_only=True):
    """An interpreter that nothing can be done to, and why."""

    python: Path
    error: CiDoctorError
    site_dir: str | None = None

    @property
    def refusal(self) -> Refusal:
        """The reason, for programs."""
        error = self.error
        return Refusal(message=error.message, hint=error.hint, exit_code=int(error.code))

    @property
    def table(self) -> Table:
        """The reason, and what to do."""
        rows: list[Row] = [row("refused", self.error.message)]
        if self.error.hint:
            rows.append(row("hint", self.error.hint))
        return Table(title=str(self.python), rows=tuple(rows))


def find_interpreters(
    named: Interpreters, environ: Mapping[str, str] = os.environ
) -> list[Path | Refused]:
    """The interpreters named, else `$VIRTUAL_ENV`, a project's `.venv` or the `python3` on PATH.

    A named one that does not exist is a refusal among the others. Raises UsageError if there is
    none.
    """
    found: list[Path | Refused] = []
    # One by one, so that one that is missing does not hide the others.
    for word in (*named.pythons, *named.venvs):
        pythons, venvs = ((word,), ()) if word in named.pythons else ((), (word,))
        try:
            found += [each.python for each in choose_targets(pythons, venvs, (), environ)]
        except UsageError as error:
            found.append(Refused(python=Path(word), error=error))
    if not found:
        projects = list(map(Path, named.projects))
        found += [each.python for each in choose_targets((), (), projects, environ)]
    if not found:
        raise UsageError("no interpreter found", hint="name one: --venv DIR or --python PY")
    return found


# Levels of folders below the working directory in which `remove --all` looks for environments.
_DEPTH: Final = 3
_SITES: Final = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages")
_MINOR = re.compile(r"python3\.(\d+)")


def find_sites(named: Interpreters, environ: Mapping[str, str]) -> list[Path]:
    """Where a shim may be: the site directories of interpreters that can be found by files alone.

    Those of `named`, of PATH, of environments below the working directory, and those that earlier
    installations of this user wrote to.
    """
    pythons = [Path(word) / "bin" / "python" for word in named.venvs]
    pythons += [Path(word) for word in named.pythons]
    for folder in os.get_exec_path(environ):
        pythons += Path(folder).glob("python3*")
    with contextlib.suppress(CiDoctorError):  # $VIRTUAL_ENV may be gone
        found = find_interpreters(Interpreters(projects=named.projects), environ)
        pythons += [each for each in found if isinstance(each, Path)]
    # Not resolve(): before Python 3.13 it raises for a link that leads to itself.
    prefixes = [
        Path(each).parent.parent
        for python in pythons
        for each in (python.absolute(), os.path.realpath(python))
    ]
    # Not pathlib's glob: it raises for a folder that vanishes meanwhile.
    for folder, inner, files in os.walk(Path.cwd()):
        if "pyvenv.cfg" in files:
            prefixes.append(Path(folder))
        if "pyvenv.cfg" in files or len(Path(folder).relative_to(Path.cwd()).parts) >= _DEPTH:
            inner.clear()
    sites = [site for prefix in prefixes for pattern in _SITES for site in prefix.glob(pattern)]
    with contextlib.suppress(OSError):
        written = _record_of_sites(environ).read_bytes().split(b"\0")
        sites += [Path(os.fsdecode(each)) for each in written if each]
    return sorted({Path(os.path.realpath(site)) for site in sites})


def remember_site(site_dir: Path, environ: Mapping[str, str]) -> None:
    """Let `find_sites` find it from anywhere. Without a home that can be written nothing is kept."""
    with contextlib.suppress(OSError):
        record = _record_of_sites(environ)
        make_directory(record.parent)
        site = os.fsencode(os.path.realpath(site_dir))
        with record.open("a+b") as file:
            file.seek(0)
            # A job may install its shim at each start.
            if site not in file.read().split(b"\0"):
                file.write(site + b"\0")


def forget_sites(environ: Mapping[str, str]) -> None:
    """Undo `remember_site`."""
    with contextlib.suppress(OSError):
        _record_of_sites(environ).unlink()
        _record_of_sites(environ).parent.rmdir()


def _record_of_sites(environ: Mapping[str, str]) -> Path:
    """Raises FileNotFoundError without a home; a relative one would be of the working directory."""
    home = environ.get("HOME")
    state = Path(environ.get("XDG_STATE_HOME") or (f"{home}/.local/state" if home else ""))
    if not state.is_absolute():
        raise FileNotFoundError
    return state / "ci-doctor" / "preload-sites"


def target_of_site(site_dir: Path) -> Target:
    """The target of a site directory, by its files: its interpreter may be gone."""
    minor = _MINOR.fullmatch(site_dir.parent.name)
    return Target(
        python=site_dir.parents[2] / "bin" / (minor[0] if minor else "python3"),
        version=(3, int(minor[1])) if minor else (3,),
        site_dir=site_dir,
        externally_managed=False,
        writable=_is_writable(str(site_dir)),
    )


def each_interpreter(
    named: Interpreters, environ: Mapping[str, str], look: Callable[[Path], T]
) -> tuple[list[T], list[Refused]]:
    """What `look` makes of each interpreter, and those that do not exist or that it refuses.

    Raises UsageError if there is none.
    """
    results: list[T] = []
    refused: list[Refused] = []
    for python in find_interpreters(named, environ):
        if isinstance(python, Refused):
            refused.append(python)
            continue
        try:
            results.append(look(python))
        except CiDoctorError as error:
            refused.append(Refused(python=python, error=error))
    return results, refused


def worst(refused: Sequence[Refused]) -> tuple[Verdict | None, Failure | None]:
    """The verdict and the error of an outcome with these refusals; None for none."""
    for kind, verdict, error_type in _WORST_FIRST:
        for each in refused:
            error = each.error
            if isinstance(error, error_type):
                return verdict, Failure(message=error.message, hint=error.hint, kind=kind)
    return None, None
