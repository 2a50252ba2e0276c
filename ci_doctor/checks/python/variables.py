# SPDX-License-Identifier: Apache-2.0
"""Reads the variables of the job that change what Python imports, and where installers install."""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python import rules
from ci_doctor.checks.python.installed_environment import (
    Examination,
    InstalledEnvironment,
    examine_each,
)
from ci_doctor.checks.python.presence import absence
from ci_doctor.checks.python.site_directory import SiteKind
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence, Severity, ShellCommand
from ci_doctor.render.formatting import amount

_VERSION = re.compile(r"/python(3\.\d+)/(?:site|dist)-packages")
# Variables that take installations away from an interpreter, by pip's and uv's documentation.
_REDIRECTING: Final = (
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_PYTHON",
    "UV_PYTHON",
    "UV_PROJECT_ENVIRONMENT",
)
_SWITCHES: Final = ("PIP_USER", "UV_SYSTEM_PYTHON")
_SHOWN: Final = 10
_OFF: Final = frozenset({"", "0", "false", "no", "off"})


def _run(context: CheckContext) -> CheckResult:
    return examine_each(context, _examine)


def _examine(environment: InstalledEnvironment, context: CheckContext) -> Examination:
    environ = context.environ
    problems = [
        *_of_home(environ),
        *_of_pythonpath(environment, context),
        *_of_user_site(environment),
        *_of_installers(environment, context),
        *_of_asserts(environment, environ),
    ]
    names = sorted(name for name in environ if name.startswith("PYTHON"))
    observed = f"set: {', '.join(names)}" if names else "no variable of Python is set"
    return Examination(observed=observed, problems=tuple(problems))


def _of_home(environ: Mapping[str, str]) -> Iterator[Problem]:
    home = environ.get("PYTHONHOME")
    if home:
        summary = f"PYTHONHOME gives each Python of the job the standard library of {home}"
        yield problem(rules.PYTHONPATH_LEAK, summary, remedy=ShellCommand("unset PYTHONHOME"))


def _of_pythonpath(environment: InstalledEnvironment, context: CheckContext) -> Iterator[Problem]:
    value = context.environ.get("PYTHONPATH", "")
    if not value:
        return
    entries = dict.fromkeys(value.split(":"))
    # Together: a list of directories that a build is going to make would bury the rest.
    missing = [entry for entry in entries if entry and absence(context.cwd / entry) is not None]
    if missing:
        yield _missing(value, missing, context.cwd)
    for entry in entries:
        if entry in missing:
            continue
        words = _leak(entry, environment, context.cwd)
        if words is None:
            continue
        text, severity = words
        yield problem(
            rules.PYTHONPATH_LEAK,
            text,
            evidence=(Evidence(excerpt=f"PYTHONPATH={value}"),),
            remedy=ShellCommand(f"export PYTHONPATH={_without(value, [entry])}"),
            severity=severity,
        )


def _missing(value: str, entries: Sequence[str], cwd: Path) -> Problem:
    """A note of the `entries` that lead nowhere."""
    summary = f"PYTHONPATH names {entries[0]}, which {absence(cwd / entries[0])}"
    if len(entries) > 1:
        summary += f", and {len(entries) - 1} more that lead nowhere"
    return problem(
        rules.PYTHONPATH_LEAK,
        summary,
        evidence=(Evidence(excerpt="\n".join(entries[:_SHOWN])),),
        remedy=ShellCommand(f"export PYTHONPATH={_without(value, entries)}"),
        severity=Severity.NOTE,
    )


def _leak(entry: str, environment: InstalledEnvironment, cwd: Path) -> tuple[str, Severity] | None:
    """What is wrong with an entry of PYTHONPATH, and how much."""
    if not entry:
        return "an empty entry in PYTHONPATH is the directory of the job", Severity.NOTE
    path = cwd / entry
    version = _VERSION.search(f"{path}/")
    own = environment.state.minor_version
    if version is not None and version[1] != own:
        text = (
            f"PYTHONPATH leads {environment.python} (Python {own}) to packages of Python "
            f"{version[1]}: {entry}"
        )
        return text, Severity.WARNING
    if path.name in {"site-packages", "dist-packages"} and not _is_own(path, environment):
        return f"PYTHONPATH leads {environment.python} to packages of {entry}", Severity.WARNING
    if not entry.startswith("/"):
        text = f"PYTHONPATH names {entry}, which is another directory wherever a program starts"
        return text, Severity.NOTE
    return None


def _is_own(path: Path, environment: InstalledEnvironment) -> bool:
    prefixes = (environment.state.prefix, environment.state.base_prefix)
    return any(path.is_relative_to(prefix) for prefix in prefixes)


def _without(value: str, entries: Sequence[str]) -> str:
    """What is to be assigned, as a shell reads it."""
    left = [each for each in value.split(":") if each and each not in entries]
    return shlex.quote(":".join(left))


def _of_user_site(environment: InstalledEnvironment) -> Iterator[Problem]:
    mine = [each for each in environment.distributions if each.site.kind is SiteKind.USER]
    if not mine:
        return
    shown = ", ".join(each.words for each in mine[:5])
    count = amount(len(mine), "distribution")
    summary = f"{environment.python} imports {count} of {mine[0].site.path}: {shown}"
    remedy = ShellCommand("export PYTHONNOUSERSITE=1")
    yield problem(rules.USER_SITE_LEAK, summary, remedy=remedy)


def _of_installers(environment: InstalledEnvironment, context: CheckContext) -> Iterator[Problem]:
    prefix = environment.state.prefix
    for name in _REDIRECTING:
        value = context.environ.get(name, "")
        # `UV_PYTHON=3.12` names a version, and no place.
        is_place = "/" in value or name == "UV_PROJECT_ENVIRONMENT"
        if value and is_place and not _is_within(context.cwd / value, prefix):
            yield _redirected(name, f"{name}={value} makes installations go past {prefix}")
    for name in _SWITCHES:
        is_on = context.environ.get(name, "").lower() not in _OFF
        if is_on and environment.state.is_venv:
            yield _redirected(name, f"{name} makes installations go past {prefix}")


def _is_within(place: Path, prefix: str) -> bool:
    """Whether `place` belongs to an environment; a link in its `bin` leads out of it."""
    real = os.path.realpath(place.parent) + "/"
    return place.is_relative_to(prefix) or f"{real}{place.name}/".startswith(f"{prefix}/")


def _redirected(name: str, summary: str) -> Problem:
    return problem(rules.INSTALLER_REDIRECTED, summary, remedy=ShellCommand(f"unset {name}"))


def _of_asserts(environment: InstalledEnvironment, environ: Mapping[str, str]) -> Iterator[Problem]:
    if environment.state.optimize and environ.get("PYTHONOPTIMIZE"):
        summary = f"PYTHONOPTIMIZE={environ['PYTHONOPTIMIZE']} removes the assert statements"
        yield problem(rules.ASSERTS_REMOVED, summary, remedy=ShellCommand("unset PYTHONOPTIMIZE"))


CHECK = DoctorCheck(
    id="python/variables",
    title="PYTHONPATH and its like lead to this job's packages",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
