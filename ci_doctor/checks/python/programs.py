# SPDX-License-Identifier: Apache-2.0
"""Reads which interpreters the programs on PATH belong to."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.presence import is_file
from ci_doctor.checks.python.rules import TOOLS_OF_TWO_INTERPRETERS
from ci_doctor.checks.settings import ALL
from ci_doctor.machine.interpreters import UnknownInterpreterError, interpreter_of
from ci_doctor.model.finding import Evidence, Severity, ShellCommand

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


class ProgramOwner(Struct, frozen=True, kw_only=True):
    """A program on PATH, and the prefix of the environment that it runs in."""

    name: str
    path: str
    prefix: str

    @property
    def directory(self) -> str:
        """The entry of PATH that it lies in."""
        return os.path.normpath(os.path.dirname(self.path))  # noqa: PTH120 - Path joins no ``


def _run(context: CheckContext) -> CheckResult:
    owners = []
    for name in _PROGRAMS:
        owner = _owner(name, context)
        if owner is not None:
            owners.append(owner)
    if not owners:
        return CheckResult(summary="no program on PATH names its interpreter")
    texts = [f"{owner.name} of {owner.prefix}" for owner in owners]
    return CheckResult(summary=", ".join(texts), problems=_problems(owners, context))


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


def _problems(owners: Sequence[ProgramOwner], context: CheckContext) -> tuple[Problem, ...]:
    first = owners[0]
    active = context.environ.get("VIRTUAL_ENV")
    is_python = first.name in {"python3", "python"}
    if active and is_python and os.path.realpath(active) != first.prefix:
        return (_inactive(active, first),)
    others = [owner for owner in owners[1:] if owner.prefix != first.prefix]
    if not others or not is_python:
        return ()
    earlier, later = _around(first, others, context)
    problems = []
    if earlier:
        problems.append(_of_two(first, earlier))
    if later:
        problems.append(_of_others(first, later))
    return tuple(problems)


def _around(
    first: ProgramOwner, others: Sequence[ProgramOwner], context: CheckContext
) -> tuple[list[ProgramOwner], list[ProgramOwner]]:
    """Those of `others` that stand on PATH before or beside `first`, and those behind it."""
    entries = context.environ.get("PATH", "").split(":")
    places = [os.path.normpath(entry) for entry in entries]
    own_place = places.index(first.directory)
    earlier = []
    later = []
    for other in others:
        if places.index(other.directory) > own_place:
            later.append(other)
        else:
            earlier.append(other)
    return earlier, later


def _inactive(active: str, python: ProgramOwner) -> Problem:
    summary = f"VIRTUAL_ENV is {active}, but {python.name} on PATH is that of {python.prefix}"
    remedy = ShellCommand(f'export PATH="{active}/bin:$PATH"')
    evidence = (Evidence(file=python.path),)
    return problem(TOOLS_OF_TWO_INTERPRETERS, summary, evidence=evidence, remedy=remedy)


def _of_two(python: ProgramOwner, others: Sequence[ProgramOwner]) -> Problem:
    names = " and ".join(other.name for other in others)
    prefixes = " and ".join(dict.fromkeys(other.prefix for other in others))
    summary = f"{python.name} on PATH is that of {python.prefix}, but {names} of {prefixes}"
    evidence = tuple(Evidence(file=owner.path) for owner in (python, *others))
    remedy = ShellCommand(f'export PATH="{python.prefix}/bin:$PATH"')
    return problem(TOOLS_OF_TWO_INTERPRETERS, summary, evidence=evidence, remedy=remedy)


def _of_others(python: ProgramOwner, others: Sequence[ProgramOwner]) -> Problem:
    """Programs that the environment of `python` lacks, as one of uv lacks pip: a note.

    The first step of a job may come before they are installed.
    """
    names = " and ".join(other.name for other in others)
    prefixes = " and ".join(dict.fromkeys(other.prefix for other in others))
    summary = f"{python.prefix} has no {names} of its own; on PATH comes that of {prefixes}"
    evidence = tuple(Evidence(file=owner.path) for owner in others)
    remedy = f"call `{python.name} -m NAME` (`uv pip`), so that no other interpreter answers"
    return problem(
        TOOLS_OF_TWO_INTERPRETERS,
        summary,
        evidence=evidence,
        remedy=remedy,
        severity=Severity.NOTE,
    )


CHECK = DoctorCheck(
    id="python/programs",
    title="programs on PATH belong to one interpreter",
    need=Need.INTERPRETER,
    needed_for=ALL,
    run=_run,
)
