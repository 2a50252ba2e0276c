# SPDX-License-Identifier: Apache-2.0
"""Reads which files of the job hide a module of the standard library, or an installed package."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Fault, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.installed_environment import (
    Examination,
    InstalledEnvironment,
    examine_each,
)
from ci_doctor.checks.python.module_names import LocalModule, compiled_modules, modules_in
from ci_doctor.checks.python.presence import absence, is_file, is_folder
from ci_doctor.checks.python.rules import MODULE_SHADOWED
from ci_doctor.checks.python.site_directory import SiteDirectory, pythonpath_entries
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence, Severity, ShellCommand
from ci_doctor.render.formatting import amount
from ci_doctor.services.spec import ServiceSpec

# Hardly any program imports these, so a file of that name hides nothing that is needed.
_SELDOM: Final = frozenset(
    {"antigravity", "idlelib", "test", "this", "turtle", "turtledemo", "lib2to3", "ensurepip"}
)
# Debuggers and profilers import these, and hardly a job runs one.
_OF_DEBUGGERS: Final = frozenset({"cmd", "code", "codeop", "profile", "trace"})
# Top folders of many repositories, which some wheels install by mistake.
_EVERYWHERE: Final = frozenset(
    {"benchmarks", "conftest", "docs", "examples", "scripts", "setup", "test", "tests", "tools"}
)


def _run(context: CheckContext) -> CheckResult:
    return examine_each(context, _examine)


def _examine(environment: InstalledEnvironment, context: CheckContext) -> Examination:
    directories = _first_directories(environment, context)
    problems: list[Problem] = []
    count = 0
    for directory in directories:
        for module in modules_in(directory, environment.state.suffixes):
            count += 1
            problem_or_none = _hides(module, environment, context)
            if problem_or_none is not None:
                problems.append(problem_or_none)
    observed = f"{amount(count, 'module')} in {amount(len(directories), 'directory before')}"
    if len(directories) != 1:
        observed = f"{amount(count, 'module')} in {len(directories)} directories before"
    return Examination(observed=f"{observed} the installed packages", problems=tuple(problems))


def _first_directories(environment: InstalledEnvironment, context: CheckContext) -> list[Path]:
    """What comes before the standard library on sys.path, each once.

    The job's directory (`python -m`, `-c`), that of a script of a service, and PYTHONPATH.
    """
    candidates = list(pythonpath_entries(context))
    if not environment.state.is_safe_path:
        candidates = [context.cwd, *_script_directories(context), *candidates]
    # A site directory in PYTHONPATH is the business of other checks.
    installed = {os.path.realpath(site.path) for site in environment.sites if site.is_installed_to}
    unique: dict[str, Path] = {}
    for candidate in candidates:
        real = os.path.realpath(candidate)
        if real not in installed and os.path.basename(real) != "site-packages":  # noqa: PTH119
            unique.setdefault(real, candidate)
    return list(unique.values())


def _script_directories(context: CheckContext) -> Iterator[Path]:
    """The directory of each script that a configured service starts."""
    for service in context.services.values():
        for word in _words(service):
            script = context.cwd / str(service.cwd or ".") / word
            if word.endswith(".py") and is_file(script):
                yield script.parent


def _words(service: ServiceSpec) -> list[str]:
    try:
        return service.words()
    except ValueError:  # an unclosed quotation: the commands that start services say so
        return []


def _hides(
    module: LocalModule, environment: InstalledEnvironment, context: CheckContext
) -> Problem | None:
    if module.name in environment.state.hideable:
        if module.name in _SELDOM:
            return None
        summary = f"{module.path} hides the module `{module.name}` of the standard library"
        severity = Severity.WARNING if module.name in _OF_DEBUGGERS else Severity.ERROR
        return _problem(module, summary, context, severity)
    if module.name in _EVERYWHERE:
        return None
    for site in environment.sites:
        installed = _installed(site, module, environment)
        if installed is not None:
            return _hidden_package(module, installed, context)
    return None


def _is_same_code(module: LocalModule, installed: Path) -> bool:
    """Whether the sources at the top are the same, by their sizes: `pip install .` has copied them."""
    if is_file(installed):
        return installed.stat().st_size == module.path.stat().st_size
    for source in installed.glob("*.py"):
        original = module.path / source.name
        if not is_file(original) or original.stat().st_size != source.stat().st_size:
            return False
    return True


def _installed(
    site: SiteDirectory, module: LocalModule, environment: InstalledEnvironment
) -> Path | None:
    """The same module in `site`, if that is another file."""
    if not site.is_installed_to:
        return None
    endings = ("", ".py", *environment.state.suffixes)
    names = [module.name + ending for ending in endings if module.name + ending in site.names]
    for name in names:
        path = site.path / name
        is_module = is_file(path) or is_file(path / "__init__.py")
        if is_module and not path.samefile(module.path):
            return path
    return None


def _hidden_package(module: LocalModule, installed: Path, context: CheckContext) -> Problem | None:
    """The problem that an installed package is hidden; None if both are the same code.

    It is an error if the installed one has compiled modules, the other one has not, and the job is
    known to import that.
    """
    if is_folder(installed):
        for name in compiled_modules(installed):
            if absence(module.path / name) is not None:
                summary = (
                    f"{module.path} hides the installed {installed}, and lacks its compiled {name}"
                )
                severity = Severity.WARNING
                if _is_imported(module, context):
                    severity = Severity.ERROR
                return _problem(module, summary, context, severity)
    if _is_same_code(module, installed):
        return None
    summary = f"{module.path} hides the installed {installed}, which is another one"
    return _problem(module, summary, context, Severity.WARNING)


def _is_imported(module: LocalModule, context: CheckContext) -> bool:
    """Whether the job is known to look where `module` lies.

    The job's directory is searched by `python -m` and `-c` alone: not by `vllm serve` or `pytest`.
    """
    if os.path.realpath(module.path.parent) != os.path.realpath(context.cwd):
        return True
    if _is_in_pythonpath(module, context):
        return True
    return any("-m" in _words(service) for service in context.services.values())


def _is_in_pythonpath(module: LocalModule, context: CheckContext) -> bool:
    parent = os.path.realpath(module.path.parent)
    return any(os.path.realpath(entry) == parent for entry in pythonpath_entries(context))


def _problem(
    module: LocalModule, summary: str, context: CheckContext, severity: Severity
) -> Problem:
    fault = Fault.ENVIRONMENT
    if _is_in_checkout(module.path, context.cwd):
        fault = Fault.REPOSITORY
    remedy = ShellCommand("export PYTHONSAFEPATH=1  # Python 3.11 and later")
    if module.path.parent != context.cwd or _is_in_pythonpath(module, context):
        safe = ""
        if module.path.parent == context.cwd:
            safe = "export PYTHONSAFEPATH=1; "
        remedy = ShellCommand(
            f"{safe}unset PYTHONPATH  # or leave {shlex.quote(str(module.path.parent))} out of it"
        )
    return problem(
        MODULE_SHADOWED,
        summary,
        evidence=(Evidence(file=str(module.path)),),
        remedy=remedy,
        severity=severity,
        fault=fault,
    )


def _is_in_checkout(path: Path, cwd: Path) -> bool:
    """Whether the file belongs to the checkout of the job."""
    for top in (cwd, *cwd.parents):
        if absence(top / ".git") is None:
            return path.is_relative_to(top)
    return False


CHECK = DoctorCheck(
    id="python/shadowing",
    title="no file of the job hides a module",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
