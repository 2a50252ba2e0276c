# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: chooses the interpreter of the tests, and what each process of pytest is started with."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.errors import PreparationError, UsageError
from ci_doctor.pytest_runs.attempt import RunKind
from ci_doctor.system.processes.limited_runs import run_limited

# --- what one process of pytest is started with: its command line and its environment ---

# In the names that the recorder reads.
RECORD: Final = "CI_DOCTOR_PYTEST_RECORD"
PLAN: Final = "CI_DOCTOR_PYTEST_PLAN"
HASH_SEED: Final = "PYTHONHASHSEED"
PLUGIN: Final = "ci_doctor_pytest_recorder"
FOLDER: Final = Path(__file__).parent / "recorder"
# Plugins whose work belongs to the run of all tests alone, and the option that turns each off.
_TURNED_OFF: Final = {"pytest-xdist": ("-n0",), "pytest-cov": ("--no-cov",)}


# A limit for tests may be short, and imports are slow: those of an engine may take half a minute from a cold disk.
_LEAST_COLLECTION_S: Final = 60.0


class PytestPlan(Struct, frozen=True, kw_only=True):
    """One run of pytest.

    args: what the user wrote, and what we add behind it. environ: the whole environment, without the
    recorder. tests: node ids to run, in this order; empty for all but those of `without`. only_their_files: nothing but the
    files of `tests` is collected. watched: a folder; the run reports which files below it were loaded.
    timeout_s: of one test, and of the load of one file, which has `least_collection_s` in any case. hash_seed: PYTHONHASHSEED if `environ` sets none.
    limit_s: for the whole run, after which it is ended. names_deselected: it records which tests `-k` leaves out.
    """

    kind: RunKind
    python: Path
    args: tuple[str, ...]
    environ: Mapping[str, str]
    directory: Path
    tests: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    only_their_files: bool = False
    watched: Path | None = None
    timeout_s: float | None = None
    least_collection_s: float = _LEAST_COLLECTION_S
    hash_seed: int | None = None
    limit_s: float | None = None
    names_deselected: bool = False

    @property
    def command(self) -> tuple[str, ...]:
        """The command line of the process."""
        return (str(self.python), "-m", "pytest", "-p", PLUGIN, *self.args)

    def environment(self, record: str, wishes: str) -> dict[str, str]:
        """The environment of the process; it writes to `record` and reads the file `wishes`."""
        before = self.environ.get("PYTHONPATH")
        entries = [str(FOLDER)]
        # An empty entry stays: it is the working directory. An empty variable has none.
        if before:
            entries += before.split(os.pathsep)
        environment = {
            **self.environ,
            "PYTHONPATH": os.pathsep.join(entries),
            RECORD: record,
            PLAN: wishes,
        }
        if self.hash_seed is not None:
            environment.setdefault(HASH_SEED, str(self.hash_seed))
        return environment

    def wishes(self, collected: str, stacks: str) -> bytes:
        """What the recorder is told, as JSON: also where the list of the tests and stacks of threads go."""
        is_rerun = self.kind is not RunKind.SUITE
        watched = None if self.watched is None else str(self.watched)
        return msgspec.json.encode(
            {
                "tests": self.tests,
                "without": self.without,
                "collected": collected,
                "only_their_files": self.only_their_files,
                "is_rerun": is_rerun,
                "keeps_output": is_rerun,
                "watched": watched,
                "names_deselected": self.names_deselected,
                "stacks": None if self.timeout_s is None else stacks,
            }
        )


def with_options(args: tuple[str, ...], *options: str) -> tuple[str, ...]:
    """`args` with `options` behind those of the user, which they replace; before a `--`."""
    if "--" not in args:
        return (*args, *options)
    place = args.index("--")
    return (*args[:place], *options, *args[place:])


def rerun_args(args: tuple[str, ...], plugins: tuple[str, ...]) -> tuple[str, ...]:
    """`args` for a run of chosen tests in one process, in a project with these plugins."""
    options: list[str] = []
    for name in plugins:
        options += _TURNED_OFF.get(name.lower().replace("_", "-"), ())
    return with_options(args, *options)


# --- chooses the interpreter of the tests, and asks it for its pytest ---

_OLDEST: Final = 7
_LIMIT_S: Final = 60.0
# Without imports of pytest, json and importlib.metadata: the last one alone takes 30 ms of CPU, and most
# distributions are wheels, whose folder names the version. The last line is the answer: a sitecustomize
# may print first.
_PROGRAM: Final = """
import os, sys
if sys.version_info < (3, 8):
    raise SystemExit("Python 3.8 or later is needed")
def version():
    for folder in sys.path:
        try:
            entries = [each for each in os.listdir(folder or ".") if each.startswith("pytest")]
        except OSError:
            continue
        for entry in entries:
            if entry.startswith("pytest-") and entry.endswith(".dist-info"):
                return entry[len("pytest-") : -len(".dist-info")]
        if any(".egg" in entry for entry in entries):
            break
    from importlib.metadata import version, PackageNotFoundError
    try:
        return version("pytest")
    except PackageNotFoundError:
        return None
def has(name):
    return any(each.find_spec(name, None) for each in sys.meta_path if hasattr(each, "find_spec"))
found = version() if has("pytest") else None
words = [str(has(name)).lower() for name in ("pytest", "pytest_rerunfailures")]
words.append("null" if found is None else '"%s"' % found)
print('{"has_pytest": %s, "has_rerunfailures": %s, "pytest": %s}' % tuple(words))
"""


class _InterpreterAnswer(Struct, frozen=True):
    has_pytest: bool
    has_rerunfailures: bool = False
    pytest: str | None = None


def find_interpreter(
    word: str | None,
    environ: Mapping[str, str],
    directory: Path,
    *,
    needs_rerunfailures: bool = False,
) -> Path:
    """The interpreter that `word` names; else that of the active environment, else PATH's `python`.

    Raises UsageError if there is none, if it has no pytest 7 or later, or without a pytest-rerunfailures that is needed;
    PreparationError if it does not answer.
    """
    python = chosen_interpreter(word, environ)
    answer = _ask(python, environ, directory)
    if not answer.has_pytest:
        raise UsageError(
            f"{python} has no pytest",
            hint=f"name the interpreter of the tests with --python, or: {python} -m pip install pytest",
        )
    # One of an unknown version may do.
    major = (answer.pytest or "").partition(".")[0]
    if major.isdecimal() and int(major) < _OLDEST:
        raise UsageError(
            f"{python} has pytest {answer.pytest}; ci-doctor needs {_OLDEST} or later",
            hint=f"{python} -m pip install -U pytest",
        )
    if needs_rerunfailures and not answer.has_rerunfailures:
        raise UsageError(
            f"--rerun-in process: {python} has no pytest-rerunfailures",
            hint=f"{python} -m pip install pytest-rerunfailures, or leave the option "
            "out: a new process proves more",
        )
    return python


def chosen_interpreter(word: str | None, environ: Mapping[str, str]) -> Path:
    """The interpreter that `find_interpreter` asks. Raises UsageError if there is none."""
    active = environ.get("VIRTUAL_ENV")
    if word is not None:
        path = Path(word)
        interpreter = shutil.which(str(path / "bin" / "python") if path.is_dir() else word)
        if interpreter is None:
            raise UsageError(
                f"--python {word}: no such interpreter",
                hint="name an existing Python, such as .venv/bin/python",
            )
    elif active:
        interpreter = shutil.which(str(Path(active) / "bin" / "python"))
        if interpreter is None:
            raise UsageError(
                f"$VIRTUAL_ENV is {active}, which has no bin/python",
                hint="activate another environment, or name the interpreter with --python",
            )
    else:
        path_variable = environ.get("PATH")
        interpreter = shutil.which("python", path=path_variable) or shutil.which(
            "python3", path=path_variable
        )
        if interpreter is None:
            raise UsageError("there is no python on PATH", hint="name one with --python")
    # Not resolved: the python of a virtual environment is a link, and another one behind it.
    return Path(os.path.abspath(interpreter))  # noqa: PTH100


def _ask(python: Path, environ: Mapping[str, str], directory: Path) -> _InterpreterAnswer:
    try:
        ran = run_limited(
            [str(python), "-c", _PROGRAM],
            timeout_s=_LIMIT_S,
            cwd=directory,
            environ=environ,
        )
    except OSError as error:
        raise UsageError(
            f"cannot run {python}: {error.strerror or error}",
            hint="name an existing Python with --python",
        ) from error
    if ran.exit_code is None:
        # A sitecustomize or a .pth of the change may hold it up.
        raise PreparationError(
            f"{python} does not answer within {_LIMIT_S:g} s",
            hint=f"see what its start waits for: {python} -X importtime -c pass",
        )
    try:
        return msgspec.json.decode(ran.last_words, type=decodable(_InterpreterAnswer))
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{python} is no interpreter for the tests: {ran.last_words}",
            hint="name another with --python",
        ) from error
