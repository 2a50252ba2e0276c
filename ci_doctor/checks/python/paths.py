# SPDX-License-Identifier: Apache-2.0
"""Reads what changes where imports come from: the job's variables, and files that hide a module."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import Fault, Findings, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.environments import (
    InstalledEnvironment,
    SiteDirectory,
    SiteKind,
    environment_check,
    pythonpath_entries,
)
from ci_doctor.machine.interpreters import absence, is_file, is_folder
from ci_doctor.model.outcome import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount
from ci_doctor.services.spec import ServiceSpec

PYTHONPATH_LEAK: Final = Rule(
    id="doctor/pythonpath-leak",
    severity=Severity.WARNING,
    meaning="PYTHONPATH or PYTHONHOME leads the job's Python to packages of another environment, or "
    "names a directory that does not exist or depends on where a program starts.",
    remedy="Unset the variable, or name absolute directories of the job only.",
)
USER_SITE_LEAK: Final = Rule(
    id="doctor/user-site-leak",
    severity=Severity.NOTE,
    meaning="Packages in the home directory of the agent's user are part of the job, and are imported "
    "before those of the system.",
    remedy="Set PYTHONNOUSERSITE=1, or use a virtual environment.",
)
INSTALLER_REDIRECTED: Final = Rule(
    id="doctor/installer-redirected",
    severity=Severity.WARNING,
    meaning="A variable makes pip or uv install elsewhere than into the interpreter of the job.",
    remedy="Unset the variable.",
)
ASSERTS_REMOVED: Final = Rule(
    id="doctor/asserts-removed",
    severity=Severity.WARNING,
    meaning="PYTHONOPTIMIZE removes each `assert` statement outside of test modules, so checks of the "
    "job pass without looking.",
    remedy="Unset PYTHONOPTIMIZE.",
)
MODULE_SHADOWED: Final = Rule(
    id="doctor/module-shadowed",
    severity=Severity.ERROR,
    meaning="A file or package in the job's directory, or in one of PYTHONPATH, has the name of "
    "another module: one of the standard library or of an installed package. `python -m` and "
    "`python -c` import the file in place of that module. A source tree lacks the compiled parts of the installed package.",
    remedy="Rename the file, run the job in another directory, or set PYTHONSAFEPATH=1.",
)

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
_SOURCE: Final = ".py"
# So many entries of a package are looked at, level by level, for a compiled module.
_ENTRIES = 3000


class LocalModule(Struct, frozen=True, kw_only=True):
    """A module that `import` finds in a directory: a file, or a folder with `__init__.py`."""

    name: str
    path: Path


@environment_check("python/variables", title="PYTHONPATH and its like lead to this job's packages")
def variables(environment: InstalledEnvironment, context: CheckContext) -> Findings:
    """Variables that lead to packages of another environment, or let installers go past this one."""
    environ = context.environ
    home = environ.get("PYTHONHOME")
    if home:
        yield problem(
            PYTHONPATH_LEAK,
            f"PYTHONHOME gives each Python of the job the standard library of {home}",
            remedy=ShellCommand("unset PYTHONHOME"),
        )
    yield from _of_pythonpath(environment, context)
    mine = [site for site in environment.sites if site.kind is SiteKind.USER and site.packages]
    for site in mine:
        shown = ", ".join(each.words for each in site.packages[:5])
        count = amount(len(site.packages), "distribution")
        yield problem(
            USER_SITE_LEAK,
            f"{environment.python} imports {count} of {site.path}: {shown}",
            remedy=ShellCommand("export PYTHONNOUSERSITE=1"),
        )
    for name, way in _redirected(environment, context):
        yield problem(
            INSTALLER_REDIRECTED,
            f"{way} makes installations go past {environment.state.prefix}",
            remedy=ShellCommand(f"unset {name}"),
        )
    if environment.state.optimize and environ.get("PYTHONOPTIMIZE"):
        yield problem(
            ASSERTS_REMOVED,
            f"PYTHONOPTIMIZE={environ['PYTHONOPTIMIZE']} removes the assert statements",
            remedy=ShellCommand("unset PYTHONOPTIMIZE"),
        )
    names = sorted(name for name in environ if name.startswith("PYTHON"))
    return f"set: {', '.join(names)}" if names else "no variable of Python is set"


def _of_pythonpath(environment: InstalledEnvironment, context: CheckContext) -> Iterator[Problem]:
    value = context.environ.get("PYTHONPATH", "")
    if not value:
        return
    entries = dict.fromkeys(value.split(":"))
    # Together: a list of directories that a build is going to make would bury the rest.
    missing = [entry for entry in entries if entry and absence(context.cwd / entry) is not None]
    if missing:
        summary = f"PYTHONPATH names {missing[0]}, which {absence(context.cwd / missing[0])}"
        if len(missing) > 1:
            summary += f", and {len(missing) - 1} more that lead nowhere"
        yield problem(
            PYTHONPATH_LEAK,
            summary,
            evidence=(Evidence(excerpt="\n".join(missing[:_SHOWN])),),
            remedy=ShellCommand(f"export PYTHONPATH={_without(value, missing)}"),
            severity=Severity.NOTE,
        )
    for entry in entries:
        if entry in missing:
            continue
        words = _leak(entry, environment, context.cwd)
        if words is None:
            continue
        text, severity = words
        yield problem(
            PYTHONPATH_LEAK,
            text,
            evidence=(Evidence(excerpt=f"PYTHONPATH={value}"),),
            remedy=ShellCommand(f"export PYTHONPATH={_without(value, [entry])}"),
            severity=severity,
        )


def _leak(entry: str, environment: InstalledEnvironment, cwd: Path) -> tuple[str, Severity] | None:
    """What is wrong with an entry of PYTHONPATH, and how much."""
    if not entry:
        return "an empty entry in PYTHONPATH is the directory of the job", Severity.NOTE
    path = cwd / entry
    version = _VERSION.search(f"{path}/")
    own = environment.state.minor_version
    if version is not None and version[1] != own:
        return (
            f"PYTHONPATH leads {environment.python} (Python {own}) to packages of Python {version[1]}: {entry}",
            Severity.WARNING,
        )
    prefixes = (environment.state.prefix, environment.state.base_prefix)
    is_own = any(path.is_relative_to(prefix) for prefix in prefixes)
    if path.name in {"site-packages", "dist-packages"} and not is_own:
        return f"PYTHONPATH leads {environment.python} to packages of {entry}", Severity.WARNING
    if not entry.startswith("/"):
        return (
            f"PYTHONPATH names {entry}, which is another directory wherever a program starts",
            Severity.NOTE,
        )
    return None


def _without(value: str, entries: Sequence[str]) -> str:
    """What is to be assigned, as a shell reads it."""
    return shlex.quote(":".join(each for each in value.split(":") if each and each not in entries))


def _redirected(
    environment: InstalledEnvironment, context: CheckContext
) -> Iterator[tuple[str, str]]:
    """The variables that redirect an installer, each with its words."""
    prefix = environment.state.prefix
    for name in _REDIRECTING:
        value = context.environ.get(name, "")
        # `UV_PYTHON=3.12` names a version, and no place.
        is_place = "/" in value or name == "UV_PROJECT_ENVIRONMENT"
        if value and is_place and not _is_within(context.cwd / value, prefix):
            yield name, f"{name}={value}"
    for name in _SWITCHES:
        is_on = context.environ.get(name, "").lower() not in _OFF
        if is_on and environment.state.is_venv:
            yield name, name


def _is_within(place: Path, prefix: str) -> bool:
    """Whether `place` belongs to an environment; a link in its `bin` leads out of it."""
    real = os.path.realpath(place.parent) + "/"
    return place.is_relative_to(prefix) or f"{real}{place.name}/".startswith(f"{prefix}/")


@environment_check("python/shadowing", title="no file of the job hides a module")
def shadowing(environment: InstalledEnvironment, context: CheckContext) -> Findings:
    """Files before the standard library on sys.path with the name of another module."""
    # What comes before the standard library on sys.path, each once.
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
    directories = list(unique.values())
    count = 0
    for directory in directories:
        for module in modules_in(directory, environment.state.suffixes):
            count += 1
            hidden = _hides(module, environment, context)
            if hidden is not None:
                yield hidden
    places = "1 directory" if len(directories) == 1 else f"{len(directories)} directories"
    return f"{amount(count, 'module')} in {places} before the installed packages"


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
        return _problem(
            module,
            f"{module.path} hides the module `{module.name}` of the standard library",
            context,
            Severity.WARNING if module.name in _OF_DEBUGGERS else Severity.ERROR,
        )
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
    pairs = ((source, module.path / source.name) for source in installed.glob("*.py"))
    return all(
        is_file(original) and original.stat().st_size == source.stat().st_size
        for source, original in pairs
    )


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
                return _problem(
                    module,
                    f"{module.path} hides the installed {installed}, and lacks its compiled {name}",
                    context,
                    Severity.ERROR if _is_imported(module, context) else Severity.WARNING,
                )
    if _is_same_code(module, installed):
        return None
    return _problem(
        module,
        f"{module.path} hides the installed {installed}, which is another one",
        context,
        Severity.WARNING,
    )


def _is_imported(module: LocalModule, context: CheckContext) -> bool:
    """Whether the job is known to look where `module` lies.

    The job's directory is searched by `python -m` and `-c` alone: not by `vllm serve` or `pytest`.
    """
    return (
        os.path.realpath(module.path.parent) != os.path.realpath(context.cwd)
        or _is_in_pythonpath(module, context)
        or any("-m" in _words(service) for service in context.services.values())
    )


def _is_in_pythonpath(module: LocalModule, context: CheckContext) -> bool:
    parent = os.path.realpath(module.path.parent)
    return any(os.path.realpath(entry) == parent for entry in pythonpath_entries(context))


def _problem(
    module: LocalModule, summary: str, context: CheckContext, severity: Severity
) -> Problem:
    fault = Fault.REPOSITORY if context.is_of_job(module.path) else Fault.ENVIRONMENT
    remedy = ShellCommand("export PYTHONSAFEPATH=1  # Python 3.11 and later")
    if module.path.parent != context.cwd or _is_in_pythonpath(module, context):
        safe = "export PYTHONSAFEPATH=1; " if module.path.parent == context.cwd else ""
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


def modules_in(directory: Path, suffixes: Sequence[str]) -> Iterator[LocalModule]:
    """The modules at the top of `directory`, by name. `suffixes` end extension modules.

    A folder without `__init__.py` hides nothing: a regular module further on is preferred (PEP 420).
    """
    try:
        entries = sorted(os.listdir(directory))  # noqa: PTH208 - half the time of iterdir
    except OSError:
        return
    for entry in entries:
        endings = (each for each in (_SOURCE, *suffixes) if entry.endswith(each))
        name = next((entry.removesuffix(each) for each in endings), None)
        if name is not None and name.isidentifier():
            yield LocalModule(name=name, path=directory / entry)
        elif entry.isidentifier() and os.path.isfile(directory / entry / "__init__.py"):  # noqa: PTH113
            yield LocalModule(name=entry, path=directory / entry)


def compiled_modules(package: Path) -> Iterator[str]:
    """The extension modules of a package, relative to it, the upper ones first."""
    folders = [package]
    count = 0
    while folders and count < _ENTRIES:
        folder = folders.pop(0)
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        count += len(entries)
        for entry in entries:
            if entry.name.endswith(".so"):
                yield str(Path(entry.path).relative_to(package))
            elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                folders.append(Path(entry.path))
