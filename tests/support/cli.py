# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs ci-doctor as its users do, a process of its own, and keeps what it said."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support.orders import SEED

ROOT = Path(__file__).parents[2]
# For programs of tests/support, which know the standard library alone: without `site` a Python starts in a third of the
# time.
BARE = (sys.executable, "-S")
# A virtual environment without packages, which tests/conftest.py makes once.
EMPTY_ENVIRONMENT: list[str] = []


@dataclass(frozen=True)
class Ran:
    """A run that has ended: `code` is the exit status (negative for a signal), `out` and `err` what it printed."""

    code: int
    out: str
    err: str
    words: tuple[str, ...] = ()
    cwd: Path | None = None

    def __repr__(self) -> str:
        """The story, for the message of a failed assertion."""
        return "\n".join(
            (
                f"$ cd {self.cwd}; {shlex.join(self.words)}",
                f"--- exit code {self.code}",
                f"--- stdout\n{self.out.rstrip()}",
                f"--- stderr\n{self.err.rstrip()}",
            )
        )


def words(*args: str | Path) -> tuple[str, ...]:
    """The command line that runs ci-doctor in this interpreter."""
    return (sys.executable, "-m", "ci_doctor", *map(str, args))


def after_shell(script: str) -> tuple[str, ...]:
    """The words that start a command after `script`, in the process of its shell."""
    return ("sh", "-c", f'{script}; exec "$@"', "sh")


def python_program(
    program: str, *args: str | Path, check: bool = True, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `program` in this interpreter to its end, and keep what it printed; `options` as subprocess.run has them."""
    command = [sys.executable, "-c", program, *args]
    return subprocess.run(command, capture_output=True, text=True, check=check, **options)


def environment(changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Our environment without what a CI job of its own would bring in; `changes` go on top, None removes."""
    kept = {
        name: value
        for name, value in os.environ.items()
        # pytest prints whole lines in its summary if `CI` or `BUILD_NUMBER` is set.
        if (
            not name.startswith(("BUILDKITE", "CI_DOCTOR_", "GITHUB_", "PYTEST_"))
            and name not in ("BUILD_NUMBER", "CI")
        )
        # A directory of this session, which tests/conftest.py made.
        or name == "PYTEST_DEBUG_TEMPROOT"
    }
    paths = [str(ROOT), *filter(None, [kept.get("PYTHONPATH")])]
    merged: dict[str, str | None] = {
        **kept,
        "PYTHONPATH": os.pathsep.join(paths),
        # Tests name starts in the order in which they are made.
        "CI_DOCTOR_CORRECTNESS_SEED": str(SEED),
        # Its starts cost CPU; the tests of it turn it on.
        "CI_DOCTOR_CORRECTNESS_LOCALISE": "false",
        # A look at all of /tmp for each start costs as much as the start; the tests of it turn it on.
        "CI_DOCTOR_CORRECTNESS_SHARED": '["*"]',
        **(changes or {}),
    }
    return {name: value for name, value in merged.items() if value is not None}


def doctor(
    *args: str | Path,
    cwd: Path,
    env: Mapping[str, str | None] | None = None,
    timeout: float = 180.0,
    before: Sequence[str] = (),
    **options: Any,
) -> Ran:
    """Run `ci-doctor ARGS` in `cwd` to its end; `env` changes our environment, `timeout` is seconds of wall clock.

    `before` are the words that start it; `options` as subprocess.run has them.
    """
    ended = subprocess.run(
        [*before, *words(*args)],
        cwd=cwd,
        env=environment({**_spared(args), **(env or {})}),
        capture_output=True,
        timeout=timeout,
        check=False,
        **{"stdin": subprocess.DEVNULL, **options},
    )
    return Ran(
        code=ended.returncode,
        out=ended.stdout.decode(errors="replace"),
        err=ended.stderr.decode(errors="replace"),
        words=("ci-doctor", *map(str, args)),
        cwd=cwd,
    )


def inside(*args: str | Path, cwd: Path, env: Mapping[str, str | None] | None = None) -> Ran:
    """`doctor` in this process, which takes a tenth of the CPU of a start; what it starts is as real as ever.

    Not for what only a process has (its signals, the path of its modules, the encoding of its streams), nor for `run`,
    which becomes its command.
    """
    from ci_doctor import cli

    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, environment({**_spared(args), **(env or {})}), clear=True),
        _kept("stdout") as out,
        _kept("stderr") as err,
    ):
        code = cli.main(list(map(str, args)))
    return Ran(code, out(), err(), words=("ci-doctor", *map(str, args)), cwd=cwd)


@contextlib.contextmanager
def _kept(name: str) -> Iterator[Callable[[], str]]:
    """What this process and its children write to a stream meanwhile, to be read afterwards."""
    number = {"stdout": 1, "stderr": 2}[name]
    said: list[str] = []
    with tempfile.TemporaryFile() as file:
        before = os.dup(number)
        os.dup2(file.fileno(), number)
        try:
            with (
                open(number, "w", encoding="utf-8", closefd=False) as stream,
                mock.patch.object(sys, name, stream),
            ):
                yield lambda: said[0]
        finally:
            os.dup2(before, number)
            os.close(before)
        file.seek(0)
        said.append(file.read().decode(errors="replace"))


# Commands that note the packages of the job's environment beside their report.
_RECORDING = ("correctness", "import-race", "launch", "restart-check", "wait")


def _spared(args: Sequence[str | Path]) -> dict[str, str]:
    """What a command need not do for each test: the tests of it ask for it.

    A proof of `setup-env` is a build of half a second, as in tests/conftest.py; others say that what the variable asks
    for was not prepared. An environment without packages is read in no time, that of the tests has 170.
    """
    if args and args[0] in ("setup-env", "run"):
        return {"CI_DOCTOR_SETUP_ENV_VERIFY": "never"}
    if args and args[0] in _RECORDING and EMPTY_ENVIRONMENT:
        return {"VIRTUAL_ENV": EMPTY_ENVIRONMENT[0]}
    return {}


def begin(
    *args: str | Path, cwd: Path, env: Mapping[str, str | None] | None = None
) -> subprocess.Popen[bytes]:
    """Start `ci-doctor ARGS` and do not wait: for tests that interrupt it. stderr can be read line by line."""
    return subprocess.Popen(
        words(*args),
        cwd=cwd,
        env=environment({**_spared(args), **(env or {})}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


# Where `installed_from` says that ci-doctor came from.
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ADDRESS = "https://git.somewhere.org/ci-doctor.git"


def installed_from(folder: Path, place: Path | None = None) -> dict[str, str]:
    """Variables with which ci-doctor takes itself for one that pip installed from a commit of ADDRESS, or from `place`."""
    info = folder / "ci_doctor_toolkit-1.2.3.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: ci-doctor-toolkit\nVersion: 1.2.3\n"
    )
    noted: dict[str, object] = {
        "url": ADDRESS,
        "vcs_info": {"vcs": "git", "commit_id": COMMIT},
    }
    if place is not None:
        noted = {"url": place.as_uri(), "dir_info": {}}
    (info / "direct_url.json").write_text(json.dumps(noted))
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
