# SPDX-License-Identifier: Apache-2.0
"""Reads how each interpreter of the job starts, and whether its environment belongs to it."""

import datetime as dt
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    DoctorCheck,
    Need,
    Problem,
    UndeterminedError,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python import rules
from ci_doctor.checks.python.interpreter_starts import InterpreterAttempt, read_starts
from ci_doctor.checks.python.presence import absence, is_file
from ci_doctor.checks.python.python_state import PythonState
from ci_doctor.checks.python.venv_files import VenvFiles, read_venv_files
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence, NextStep, ShellCommand

_OF_START_FILES: Final = "ci-doctor doctor starts"
# The last day of security fixes, by https://devguide.python.org/versions/ (a month, there).
_END_OF_LIFE: Final[Mapping[str, str]] = {
    "3.6": "2021-12-31",
    "3.7": "2023-06-30",
    "3.8": "2024-10-31",
    "3.9": "2025-10-31",
    "3.10": "2026-10-31",
    "3.11": "2027-10-31",
    "3.12": "2028-10-31",
    "3.13": "2029-10-31",
    "3.14": "2030-10-31",
}


def _run(context: CheckContext) -> CheckResult:
    # Here alone a missing interpreter counts: under --strict a job without one must not pass.
    if not context.targets:
        raise UndeterminedError(Need.INTERPRETER.value)
    starts = context.shared(read_starts)
    problems: list[Problem] = []
    texts = []
    old = []
    for start in starts:
        files = read_venv_files(start.target.python)
        if start.is_too_old:
            old.append(f"{start.target.python} is older than Python 3.6, which is not looked at")
        elif start.state is None:
            problems.append(_failure(start, files))
            texts.append(f"{start.target.python} does not start")
        else:
            problems.extend(_of_state(start.target.python, start.state, files))
            texts.append(f"{start.target.python} is Python {start.state.full_version}")
    return CheckResult(
        summary=", ".join((*texts, *old)),
        problems=tuple(problems),
        unknown=", ".join(old) or None,
    )


def _failure(start: InterpreterAttempt, files: VenvFiles) -> Problem:
    python = start.target.python
    if not os.access(python, os.X_OK):
        summary = f"{python} ({start.target.why}) cannot be run: {start.failure}"
        remedy: NextStep | None = _again(files)
        if (absence(python) or "").startswith("cannot"):
            remedy = "let its owner make it readable, or take an interpreter that all users may run"
        return problem(rules.INTERPRETER_MISSING, summary, remedy=remedy)
    evidence = (Evidence(excerpt=start.output),) if start.output else ()
    if start.starts_without_site:
        # Another link to the same interpreter would run the same files.
        summary = f"{python} does not start: a file that each start runs ends it: {start.failure}"
        remedy = ShellCommand(f"{_OF_START_FILES} --python {shlex.quote(str(python))}")
        return problem(rules.INTERPRETER_BROKEN, summary, evidence=evidence, remedy=remedy)
    if start.needed_without:
        names = ", ".join(start.needed_without)
        summary = f"{python} starts only without {names}: {start.failure}"
        unset = ShellCommand(f"unset {' '.join(start.needed_without)}")
        return problem(rules.VARIABLES_STOP_PYTHON, summary, evidence=evidence, remedy=unset)
    summary = f"{python} does not start: {start.failure}"
    return problem(rules.INTERPRETER_BROKEN, summary, evidence=evidence, remedy=_again(files))


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


def _of_state(python: Path, state: PythonState, files: VenvFiles) -> list[Problem]:
    problems = []
    if files.is_venv:
        problems += _of_venv(python, state, files)
    elif is_file(Path(state.stdlib) / "EXTERNALLY-MANAGED"):
        summary = f"{python} is managed by the operating system"
        problems.append(problem(rules.EXTERNALLY_MANAGED, summary))
    last_day = _END_OF_LIFE.get(state.minor_version)
    today = dt.datetime.now(tz=dt.UTC).date()
    if last_day is not None and dt.date.fromisoformat(last_day) < today:
        summary = f"{python} is Python {state.version}, which has had no fixes since {last_day}"
        problems.append(problem(rules.PYTHON_END_OF_LIFE, summary))
    return problems


def _of_venv(python: Path, state: PythonState, files: VenvFiles) -> list[Problem]:
    prefix = files.prefix
    if files.keys is None:
        if not files.libraries or os.path.realpath(state.prefix) == os.path.realpath(prefix):
            return []  # an installation of its own, with an `activate` (conda)
        summary = (
            f"{prefix} has no pyvenv.cfg, so {python} runs with the packages of {state.prefix}"
        )
        return [problem(rules.VENV_WITHOUT_CONFIG, summary, remedy=_again(files))]
    problems = []
    home = files.keys.get("home", "")
    reason = absence(home)
    if reason is not None:
        summary = f"{prefix}/pyvenv.cfg names {home} as its home, which {reason}"
        if not home:
            summary = f"{prefix}/pyvenv.cfg names no home, so {python} does not use its packages"
        excerpt = f"home = {home}" if home else None
        evidence = (Evidence(file=str(prefix / "pyvenv.cfg"), excerpt=excerpt),)
        problems.append(
            problem(rules.VENV_BASE_MISSING, summary, evidence=evidence, remedy=_again(files))
        )
    problems += _of_packages(python, state, files)
    return problems


def _of_packages(python: Path, state: PythonState, files: VenvFiles) -> list[Problem]:
    """Whether the packages of a virtual environment are where its interpreter looks."""
    version = state.version
    if not files.libraries:
        summary = f"{files.prefix} has no directory of packages"
        return [problem(rules.VENV_WITHOUT_PACKAGES, summary, remedy=_again(files))]
    if state.minor_version not in files.libraries:
        others = " and ".join(files.libraries)
        summary = (
            f"{python} is Python {version}, and {files.prefix} has packages of Python {others}"
        )
    elif files.version not in {None, state.minor_version}:
        summary = f"{python} is Python {version}, and {files.prefix} was made for {files.version}"
    else:
        return []
    return [problem(rules.VENV_OF_ANOTHER_VERSION, summary, remedy=_again(files))]


CHECK = DoctorCheck(
    id="python/interpreters",
    title="the job's interpreters start, and their environments belong to them",
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
