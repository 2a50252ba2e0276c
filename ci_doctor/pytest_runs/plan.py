# SPDX-License-Identifier: Apache-2.0
"""What one process of pytest is started with: its command line and its environment. Pure."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.pytest_runs.attempt import RunKind

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
    limit_s: for the whole run, after which it is ended.
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
