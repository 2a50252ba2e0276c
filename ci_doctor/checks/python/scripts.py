# SPDX-License-Identifier: Apache-2.0
"""Reads the first lines of an environment's programs: which interpreter each of them names."""

import os
import re
import shlex
from pathlib import Path

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.installed_environment import (
    Examination,
    InstalledEnvironment,
    examine_each,
)
from ci_doctor.checks.python.presence import absence, is_folder
from ci_doctor.checks.python.rules import VENV_MOVED
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence, Severity, ShellCommand
from ci_doctor.render.formatting import amount

# An absolute Python in a first line, or in the second one where a path is too long for the first.
_PYTHON = re.compile(rb"^#!(?:/bin/sh\s+'''exec' )?\"?(/[^\"'\s]*/python[0-9.]*)[\"'\s]")
# An installer writes the interpreter of the environment. These stand in a file that its author
# wrote: they say nothing about where the environment was made.
_OF_THE_SYSTEM = frozenset({"/bin", "/usr/bin", "/usr/local/bin"})
_HEAD_BYTES = 512
_SHOWN = 5


def _run(context: CheckContext) -> CheckResult:
    return examine_each(context, _examine)


def _examine(environment: InstalledEnvironment, _context: CheckContext) -> Examination:
    folder = environment.python.parent
    if not _is_ours(environment):
        return Examination(observed=f"{folder} is shared by several interpreters")
    interpreters = _interpreters(folder)
    strays: dict[str, list[str]] = {}
    for name, python in interpreters.items():
        other = os.path.dirname(python)  # noqa: PTH120
        if other not in _OF_THE_SYSTEM and os.path.realpath(other) != os.path.realpath(folder):
            strays.setdefault(other, []).append(name)
    problems = tuple(_stray(folder, other, names) for other, names in strays.items())
    return Examination(
        observed=f"{amount(len(interpreters), 'program')} in {folder} name their interpreter",
        problems=problems,
    )


def _is_ours(environment: InstalledEnvironment) -> bool:
    """Whether `bin` belongs to one environment: a venv, or a prefix of conda."""
    prefix = Path(environment.state.prefix)
    return environment.state.is_venv or is_folder(prefix / "conda-meta")


def _interpreters(folder: Path) -> dict[str, str]:
    """The Python that each program in `folder` names."""
    interpreters = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            python = _named(entry)
            if python is not None:
                interpreters[entry.name] = python
    return dict(sorted(interpreters.items()))


def _named(entry: "os.DirEntry[str]") -> str | None:
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
    remedy = _renamed(folder, other)
    count = amount(len(names), "program")
    reason = absence(f"{other}/python")
    if reason is None:
        summary = f"{count} in {folder} run in another environment, that of {other}: {shown}"
        return problem(
            VENV_MOVED, summary, evidence=evidence, remedy=remedy, severity=Severity.WARNING
        )
    summary = f"{count} in {folder} name an interpreter in {other}, which {reason}: {shown}"
    return problem(VENV_MOVED, summary, evidence=evidence, remedy=remedy)


def _renamed(folder: Path, other: str) -> ShellCommand:
    """Writes the present place into each text in `folder`: first lines, and `activate`."""
    before = os.path.dirname(other)  # noqa: PTH120
    old = re.sub(r"([][\\.*^$#+?(){}|])", r"\\\1", before)
    new = re.sub(r"([\\&#])", r"\\\1", str(folder.parent))
    # Not in a longer name: /venv2 is another environment than /venv.
    script = f"s#{old}([^[:alnum:]_.-]|$)#{new}\\1#g"
    texts = f"grep -lIF -- {shlex.quote(before)} {shlex.quote(str(folder))}/*"
    return ShellCommand(f"{texts} | xargs -d '\\n' sed -E -i {shlex.quote(script)}")


CHECK = DoctorCheck(
    id="python/scripts",
    title="the programs of an environment run in it",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
