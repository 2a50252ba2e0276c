# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: makes trials, each in a fresh process, and undoes them.

A trial has a temporary directory of its own. It runs in the user's directory, with the user's
options for pytest. What its tests write elsewhere is taken back after it (`undo.py`).
"""

import itertools
import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from ci_doctor.pytest_runs.explain.command_line import PLUGIN, PLUGIN_FOLDER, plugin_form
from ci_doctor.pytest_runs.explain.reading import result_of
from ci_doctor.pytest_runs.explain.trial import FlakyTrial, TrialResult
from ci_doctor.pytest_runs.explain.undo import undo
from ci_doctor.pytest_runs.plan import with_options

# Runs a command with an environment; the exit code, None if a time limit ended it.
Execute = Callable[[Sequence[str], Mapping[str, str]], int | None]


class TrialRunner:
    """Makes trials of the tests of one suite."""

    def __init__(
        self,
        *,
        python: str,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        scratch: Path,
        execute: Execute,
        own: Path | None = None,
    ) -> None:
        """A runner with `scratch`, an empty directory, for itself alone.

        arguments: the user's, for pytest. own: a directory around `scratch` in which no test writes.
        """
        self._python = python
        self._arguments = tuple(arguments)
        self._environ = dict(environ)
        self._scratch = scratch
        self._execute = execute
        self._own = own or scratch
        self._numbers = itertools.count(1)

    def run(self, trial: FlakyTrial, error: str | None) -> TrialResult:
        """Make `trial`. A failure counts as the suspect's if it is by the exception class `error`."""
        folder = self._scratch / f"trial-{next(self._numbers)}"
        temporary = folder / "tmp"
        temporary.mkdir(parents=True)
        records: list[Path] = []
        try:
            for index, test in enumerate(trial.earlier):
                earlier = msgspec.structs.replace(trial, target=test, before=(), earlier=())
                records.append(folder / f"earlier-{index}" / "result.json")
                self._once(earlier, records[-1], temporary)
            records.append(folder / "last" / "result.json")
            exit_code = self._once(trial, records[-1], temporary)
            written = records[-1].read_bytes() if records[-1].exists() else None
        finally:
            for record in reversed(records):
                undo(record.with_name(record.name + ".undo"))
            shutil.rmtree(folder, ignore_errors=True)
        return result_of(trial, written, exit_code, error)

    def _once(self, trial: FlakyTrial, record: Path, temporary: Path) -> int | None:
        record.parent.mkdir()
        options = ("-o", f"cache_dir={record.parent / 'cache'}", "-p", PLUGIN)
        command = (self._python, "-m", "pytest", *with_options(self._arguments, *options))
        return self._execute(command, self._environment(trial, record, temporary))

    def _environment(self, trial: FlakyTrial, record: Path, temporary: Path) -> dict[str, str]:
        environ = dict(self._environ)
        paths = [str(PLUGIN_FOLDER), environ.get("PYTHONPATH", "")]
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        environ["TMPDIR"] = str(temporary)
        # The user's own coverage stays as it is.
        environ["COVERAGE_FILE"] = str(record.parent / "coverage")
        environ["CI_DOCTOR_TRIAL"] = plugin_form(trial, result=str(record), own=str(self._own))
        environ["CI_DOCTOR_TRIAL_ID"] = uuid.uuid4().hex
        if trial.hash_seed is not None:
            environ["PYTHONHASHSEED"] = str(trial.hash_seed)
        if trial.zone is not None:
            environ["TZ"] = trial.zone
        return environ
