# SPDX-License-Identifier: Apache-2.0
"""Reads how each interpreter of the job starts, whether its environment belongs to it, and its programs."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    Findings,
    Need,
    Problem,
    UndeterminedError,
    check,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.environments import (
    InstalledEnvironment,
    InterpreterAttempt,
    environment_check,
    read_starts,
)
from ci_doctor.checks.settings import ALL
from ci_doctor.machine.interpreters import (
    PythonState,
    UnknownInterpreterError,
    VenvFiles,
    absence,
    interpreter_of,
    is_file,
    is_folder,
    read_venv_files,
)
from ci_doctor.model.outcome import Evidence, NextStep, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount

INTERPRETER_MISSING: Final = Rule(
    id="doctor/interpreter-missing",
    severity=Severity.ERROR,
    meaning="The Python of the job cannot be run: its file is gone, or a link to the interpreter that "
    "the environment was made from leads nowhere, or it is not executable.",
    remedy="Make the environment again with an interpreter of this machine.",
)
INTERPRETER_BROKEN: Final = Rule(
    id="doctor/interpreter-broken",
    severity=Severity.ERROR,
    meaning="The Python of the job ends with an error before it runs a program.",
    remedy="Read its last words. Make the environment again if its base interpreter was replaced.",
)
VARIABLES_STOP_PYTHON: Final = Rule(
    id="doctor/variables-stop-python",
    severity=Severity.ERROR,
    meaning="The Python of the job starts in an empty environment, but not in that of the job: a "
    "variable such as PYTHONHOME or PYTHONPATH leads it to files of another Python.",
    remedy="Unset the variable that the finding names.",
)
VENV_WITHOUT_CONFIG: Final = Rule(
    id="doctor/venv-without-config",
    severity=Severity.ERROR,
    meaning="A virtual environment has lost its pyvenv.cfg. Its `python` is then the base interpreter "
    "under another name, and sees none of the environment's packages (PEP 405).",
    remedy="Make the environment again.",
)
VENV_BASE_MISSING: Final = Rule(
    id="doctor/venv-base-missing",
    severity=Severity.ERROR,
    meaning="pyvenv.cfg names, as `home`, a directory that does not exist. Python then guesses where "
    "its standard library is, and may take that of another installation.",
    remedy="Make the environment again with an interpreter of this machine.",
)
VENV_OF_ANOTHER_VERSION: Final = Rule(
    id="doctor/venv-of-another-version",
    severity=Severity.ERROR,
    meaning="The packages of a virtual environment lie in the directory of another Python version than "
    "the one that runs, so it sees none of them. This happens when the base interpreter is upgraded.",
    remedy="Make the environment again with the interpreter that runs now.",
)
VENV_WITHOUT_PACKAGES: Final = Rule(
    id="doctor/venv-without-packages",
    severity=Severity.ERROR,
    meaning="A virtual environment has lost its directory of packages, `lib/pythonX.Y/site-packages`, "
    "which it has from the beginning.",
    remedy="Make the environment again.",
)
VENV_MOVED: Final = Rule(
    id="doctor/venv-moved",
    severity=Severity.ERROR,
    meaning="The programs in `bin` name another interpreter in their first line than the one beside "
    "them: the environment was moved or copied. They do not start, or run in another environment.",
    remedy="Make the environment again in its present place, or call `python -m NAME`.",
)
EXTERNALLY_MANAGED: Final = Rule(
    id="doctor/externally-managed",
    severity=Severity.NOTE,
    meaning="The job runs in the interpreter of the operating system, and pip refuses to install there "
    "(PEP 668).",
    remedy="Make a virtual environment for the job.",
)
TOOLS_OF_TWO_INTERPRETERS: Final = Rule(
    id="doctor/tools-of-two-interpreters",
    severity=Severity.WARNING,
    meaning="Programs on PATH belong to different interpreters. What `pip` installs, `pytest` or "
    "`vllm` then does not import.",
    remedy="Put the `bin` of one environment first on PATH, or call `python -m NAME`.",
)

_OF_START_FILES: Final = "ci-doctor doctor starts"
# An absolute Python in a first line, or in the second one where a path is too long for the first.
_PYTHON = re.compile(rb"^#!(?:/bin/sh\s+'''exec' )?\"?(/[^\"'\s]*/python[0-9.]*)[\"'\s]")
# An installer writes the interpreter of the environment. These stand in a file that its author
# wrote: they say nothing about where the environment was made.
_OF_THE_SYSTEM = frozenset({"/bin", "/usr/bin", "/usr/local/bin"})
_HEAD_BYTES: Final = 512
_SHOWN: Final = 5
# What jobs call by name.
_PROGRAMS: Final = (
    "python3",
    "python",
    "pip",
    "pip3",
    "pytest",
    "torchrun",
    "vllm",
    "lmcache",
    "sglang",
    "ray",
)


@check(
    "python/interpreters",
    title="the job's interpreters start, and their environments belong to them",
    cost=Cost.PROGRAM,
    needed_for=ALL,
)
def interpreters(context: CheckContext) -> Findings:
    """Interpreters that do not start, and environments that have lost a part."""
    # Here alone a missing interpreter counts: under --strict a job without one must not pass.
    if not context.targets:
        raise UndeterminedError(Need.INTERPRETER.value)
    texts = []
    old = []
    for start in context.shared(read_starts):
        python = start.target.python
        files = read_venv_files(python)
        if start.is_too_old:
            old.append(f"{python} is older than Python 3.6, which is not looked at")
        elif start.state is None:
            yield _failure(start, files)
            texts.append(f"{python} does not start")
        else:
            texts.append(f"{python} is Python {start.state.full_version}")
            if files.is_venv:
                yield from _of_venv(python, start.state, files)
            elif is_file(Path(start.state.stdlib) / "EXTERNALLY-MANAGED"):
                yield problem(EXTERNALLY_MANAGED, f"{python} is managed by the operating system")
    return CheckResult(summary=", ".join((*texts, *old)), unknown=", ".join(old) or None)


def _failure(start: InterpreterAttempt, files: VenvFiles) -> Problem:
    python = start.target.python
    if not os.access(python, os.X_OK):
        summary = f"{python} ({start.target.why}) cannot be run: {start.failure}"
        remedy: NextStep | None = _again(files)
        if (absence(python) or "").startswith("cannot"):
            remedy = "let its owner make it readable, or take an interpreter that all users may run"
        return problem(INTERPRETER_MISSING, summary, remedy=remedy)
    evidence = (Evidence(excerpt=start.output),) if start.output else ()
    if start.starts_without_site:
        # Another link to the same interpreter would run the same files.
        return problem(
            INTERPRETER_BROKEN,
            f"{python} does not start: a file that each start runs ends it: {start.failure}",
            evidence=evidence,
            remedy=ShellCommand(f"{_OF_START_FILES} --python {shlex.quote(str(python))}"),
        )
    if start.needed_without:
        names = ", ".join(start.needed_without)
        return problem(
            VARIABLES_STOP_PYTHON,
            f"{python} starts only without {names}: {start.failure}",
            evidence=evidence,
            remedy=ShellCommand(f"unset {' '.join(start.needed_without)}"),
        )
    return problem(
        INTERPRETER_BROKEN,
        f"{python} does not start: {start.failure}",
        evidence=evidence,
        remedy=_again(files),
    )


def _again(files: VenvFiles) -> ShellCommand | None:
    """How to lead the environment to an interpreter again; its packages stay."""
    if not files.is_venv:
        return None
    version = files.libraries[-1] if files.libraries else files.version or "3"
    folder = shlex.quote(str(files.prefix / "bin"))
    links = " ".join(f"{folder}/{name}" for name in ("python", "python3", "python3.*"))
    prefix = shlex.quote(str(files.prefix))
    # Its pip stays as it is: a new one would need ensurepip, which Debian's Python lacks.
    options = "--upgrade --without-pip"
    if (files.keys or {}).get("include-system-site-packages", "").lower() == "true":
        options += " --system-site-packages"
    return ShellCommand(f"rm -f {links} && python{version} -m venv {options} {prefix}")


def _of_venv(python: Path, state: PythonState, files: VenvFiles) -> Iterator[Problem]:
    prefix = files.prefix
    if files.keys is None:
        is_own = os.path.realpath(state.prefix) == os.path.realpath(prefix)
        if files.libraries and not is_own:  # else an installation with an `activate` (conda)
            packages = f"{python} runs with the packages of {state.prefix}"
            yield problem(
                VENV_WITHOUT_CONFIG,
                f"{prefix} has no pyvenv.cfg, so {packages}",
                remedy=_again(files),
            )
        return
    home = files.keys.get("home", "")
    reason = absence(home)
    if reason is not None:
        summary = f"{prefix}/pyvenv.cfg names {home} as its home, which {reason}"
        if not home:
            summary = f"{prefix}/pyvenv.cfg names no home, so {python} does not use its packages"
        excerpt = f"home = {home}" if home else None
        evidence = (Evidence(file=str(prefix / "pyvenv.cfg"), excerpt=excerpt),)
        yield problem(VENV_BASE_MISSING, summary, evidence=evidence, remedy=_again(files))
    own = state.minor_version
    if not files.libraries:
        yield problem(
            VENV_WITHOUT_PACKAGES, f"{prefix} has no directory of packages", remedy=_again(files)
        )
    elif own not in files.libraries or files.version not in {None, own}:
        words = f"was made for {files.version}"
        if own not in files.libraries:
            words = f"has packages of Python {' and '.join(files.libraries)}"
        yield problem(
            VENV_OF_ANOTHER_VERSION,
            f"{python} is Python {state.version}, and {prefix} {words}",
            remedy=_again(files),
        )


@environment_check("python/scripts", title="the programs of an environment run in it")
def scripts(environment: InstalledEnvironment, _context: CheckContext) -> Findings:
    """Programs in `bin` whose first line names another interpreter than the one beside them."""
    folder = environment.python.parent
    # `bin` belongs to one environment: a venv, or a prefix of conda.
    if not environment.state.is_venv and not is_folder(
        Path(environment.state.prefix) / "conda-meta"
    ):
        return f"{folder} is shared by several interpreters"
    with os.scandir(folder) as entries:
        named = {entry.name: python for entry in entries if (python := _named(entry)) is not None}
    strays: dict[str, list[str]] = {}
    for name, python in sorted(named.items()):
        other = os.path.dirname(python)  # noqa: PTH120
        if other not in _OF_THE_SYSTEM and os.path.realpath(other) != os.path.realpath(folder):
            strays.setdefault(other, []).append(name)
    for other, names in strays.items():
        yield _stray(folder, other, names)
    return f"{amount(len(named), 'program')} in {folder} name their interpreter"


def _named(entry: "os.DirEntry[str]") -> str | None:
    """The Python that a program in `bin` names."""
    if entry.is_symlink() or not entry.is_file():
        return None
    try:
        with open(entry.path, "rb") as file:  # noqa: PTH123 - a hundred files are read
            match = _PYTHON.match(file.read(_HEAD_BYTES))
    except OSError:
        return None
    return os.fsdecode(match[1]) if match else None


def _stray(folder: Path, other: str, names: list[str]) -> Problem:
    """A problem of the programs `names` in `folder`, which name an interpreter in `other`."""
    shown = ", ".join(names[:_SHOWN])
    evidence = (Evidence(file=str(folder / names[0]), line=1, excerpt=f"#!{other}/python"),)
    reason = absence(f"{other}/python")
    what = f"name an interpreter in {other}, which {reason}"
    if reason is None:
        what = f"run in another environment, that of {other}"
    return problem(
        VENV_MOVED,
        f"{amount(len(names), 'program')} in {folder} {what}: {shown}",
        evidence=evidence,
        severity=Severity.WARNING if reason is None else Severity.ERROR,
    )


class ProgramOwner(Struct, frozen=True, kw_only=True):
    """A program on PATH, and the prefix of the environment that it runs in."""

    name: str
    path: str
    prefix: str

    @property
    def directory(self) -> str:
        """The entry of PATH that it lies in."""
        return os.path.normpath(os.path.dirname(self.path))  # noqa: PTH120 - Path joins no ``


@check(
    "python/programs",
    title="programs on PATH belong to one interpreter",
    need=Need.INTERPRETER,
    needed_for=ALL,
)
def programs(context: CheckContext) -> Findings:
    """Programs on PATH of another environment than `python`'s, and an active one that is not first."""
    owners = [owner for name in _PROGRAMS if (owner := _owner(name, context)) is not None]
    if not owners:
        return "no program on PATH names its interpreter"
    first = owners[0]
    active = context.environ.get("VIRTUAL_ENV")
    # The environment of `python` may lack a program of its own, as one of uv lacks pip.
    places = [os.path.normpath(entry) for entry in context.environ.get("PATH", "").split(":")]
    own_place = places.index(first.directory)
    others = [
        owner
        for owner in owners[1:]
        if owner.prefix != first.prefix and places.index(owner.directory) <= own_place
    ]
    if first.name not in {"python3", "python"}:
        others = []
    elif active and os.path.realpath(active) != first.prefix:
        yield problem(
            TOOLS_OF_TWO_INTERPRETERS,
            f"VIRTUAL_ENV is {active}, but {first.name} on PATH is that of {first.prefix}",
            evidence=(Evidence(file=first.path),),
            remedy=ShellCommand(f'export PATH="{active}/bin:$PATH"'),
        )
        others = []
    if others:
        yield _of_two(first, others)
    return ", ".join(f"{owner.name} of {owner.prefix}" for owner in owners)


def _owner(name: str, context: CheckContext) -> ProgramOwner | None:
    """None for a program that is not there, or runs a Python that no file names (pyenv's shims)."""
    path = shutil.which(name, path=context.environ.get("PATH", ""))
    if path is None:
        return None
    try:
        python = interpreter_of([name], context.environ, context.cwd).python
    except UnknownInterpreterError:
        return None
    return ProgramOwner(name=name, path=path, prefix=_prefix(python))


def _prefix(python: Path) -> str:
    """That of a virtual environment by its path, else that of the file it links to (PEP 405)."""
    folder = python.parent.parent
    if not is_file(folder / "pyvenv.cfg"):
        folder = Path(os.path.realpath(python)).parent.parent
    return os.path.realpath(folder)


def _of_two(python: ProgramOwner, others: Sequence[ProgramOwner]) -> Problem:
    names = " and ".join(other.name for other in others)
    prefixes = " and ".join(dict.fromkeys(other.prefix for other in others))
    return problem(
        TOOLS_OF_TWO_INTERPRETERS,
        f"{python.name} on PATH is that of {python.prefix}, but {names} of {prefixes}",
        evidence=tuple(Evidence(file=owner.path) for owner in (python, *others)),
        remedy=ShellCommand(f'export PATH="{python.prefix}/bin:$PATH"'),
    )
