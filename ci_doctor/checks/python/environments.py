# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts each interpreter of the job once, and reads what is installed for it.

One reading for all checks of this area. The starts leave no bytecode, because a check changes nothing.
"""

import os
import shlex
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from enum import Enum
from functools import wraps
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    DoctorCheck,
    Findings,
    Need,
    Problem,
    UndeterminedError,
    check,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.settings import ALL
from ci_doctor.machine.interpreters import (
    PROBE,
    PythonState,
    TargetInterpreter,
    absence,
    clean_environment,
    start_python,
)
from ci_doctor.machine.packages import Package, RecordedFile, packages_of, read_record
from ci_doctor.model.outcome import ShellCommand

# So many characters of what an interpreter writes are kept.
_LONGEST = 2000
_NAMES = frozenset({"site-packages", "dist-packages"})
_DEBIAN = "/usr/lib/python3/dist-packages"


class InterpreterAttempt(Struct, frozen=True, kw_only=True):
    """One start of `target`.

    `state` is None if it failed; then `failure` is the last line of its output, and `output` what it
    wrote to stderr. `needed_without` names the variables without which it starts.
    `starts_without_site`: it starts if no `.pth` file and no sitecustomize is run.
    """

    target: TargetInterpreter
    state: PythonState | None
    failure: str = ""
    output: str = ""
    needed_without: tuple[str, ...] = ()
    starts_without_site: bool = False

    @property
    def is_too_old(self) -> bool:
        """Whether it starts, and cannot read a program for Python 3."""
        return self.state is None and PROBE.name in self.output and "SyntaxError" in self.output


class SiteKind(Enum):
    """Where a directory on sys.path comes from."""

    OWN = "of the interpreter"
    SYSTEM = "of the base interpreter"
    USER = "of the user"
    PYTHONPATH = "of PYTHONPATH"
    ADDED = "of a .pth file"
    DEBIAN = "of the operating system"


class SiteDirectory(Struct, frozen=True, kw_only=True):
    """One directory on sys.path that can hold packages; `names` are its entries, sorted."""

    path: Path
    kind: SiteKind
    names: tuple[str, ...]
    packages: tuple[Package, ...] = ()

    @property
    def is_installed_to(self) -> bool:
        """Whether an installer of Python packages writes to it for this interpreter."""
        return self.kind in {SiteKind.OWN, SiteKind.SYSTEM, SiteKind.USER}


class InstalledEnvironment(Struct, frozen=True, kw_only=True):
    """An interpreter that starts, and its directories of packages in the order of the search."""

    target: TargetInterpreter
    state: PythonState
    sites: tuple[SiteDirectory, ...]

    @property
    def python(self) -> Path:
        """The path that is run."""
        return self.target.python

    @property
    def packages(self) -> tuple[Package, ...]:
        """All distributions, those of source trees on sys.path too."""
        return tuple(package for site in self.sites for package in site.packages)

    @property
    def installed(self) -> tuple[Package, ...]:
        """Those that an installer put there: not what lies beside a source by a .pth file."""
        return tuple(each for site in self.sites if site.is_installed_to for each in site.packages)

    def pip_line(self, verb: str, words: Sequence[str]) -> str:
        """A command for this environment; one without pip is one of uv."""
        python, rest = shlex.quote(str(self.python)), shlex.join(words)
        if any(each.name == "pip" for each in self.packages):
            # Its question would take the next line that is pasted for an answer. uv asks nothing.
            option = " -y" if verb == "uninstall" else ""
            return f"{python} -m pip {verb}{option} {rest}"
        return f"uv pip {verb} --python {python} {rest}"

    def reinstallation(self, package: Package) -> ShellCommand:
        """The command that installs one distribution again, and nothing else."""
        wanted = f"{package.name}=={package.version}" if package.version else package.name
        return ShellCommand(self.pip_line("install", ["--force-reinstall", "--no-deps", wanted]))


# What a check says of one interpreter: problems, then what was observed, as a clause.
EnvironmentLook = Callable[
    [InstalledEnvironment, CheckContext], Generator[Problem, None, CheckResult | str]
]
Records = Mapping[Path, tuple[RecordedFile, ...]]


def environment_check(name: str, *, title: str) -> Callable[[EnvironmentLook], DoctorCheck]:
    """Make a check of a generator that looks at one interpreter and its packages.

    An interpreter that does not start makes the result unknown; the check raises UndeterminedError if
    none starts.
    """

    def decorate(look: EnvironmentLook) -> DoctorCheck:
        @check(name, title=title, need=Need.INTERPRETER, cost=Cost.PROGRAM, needed_for=ALL)
        @wraps(look)
        def each(context: CheckContext) -> Findings:
            return (yield from _examine(context, look))

        return each

    return decorate


def _examine(context: CheckContext, look: EnvironmentLook) -> Findings:
    environments = context.shared(read_environments)
    reasons = []
    for start in context.shared(read_starts):
        if start.is_too_old:
            reasons.append(f"{start.target.python} is older than Python 3.6")
        elif start.state is None:
            reasons.append(f"{start.target.python} does not start")
    if not environments:
        raise UndeterminedError("; ".join(reasons))
    texts = []
    for environment in environments:
        said = yield from look(environment, context)
        result = CheckResult(summary=said) if isinstance(said, str) else said
        if result.unknown is not None:
            reasons.append(result.unknown)
        place = f"{environment.python}: " if len(environments) > 1 else ""
        texts.append(place + result.summary)
    return CheckResult(summary="; ".join(texts), unknown="; ".join(reasons) or None)


def read_starts(context: CheckContext) -> tuple[InterpreterAttempt, ...]:
    """A start of each interpreter, in the order of the targets. For CheckContext.shared."""
    return tuple(_start(context, target) for target in context.targets)


def read_environments(context: CheckContext) -> tuple[InstalledEnvironment, ...]:
    """Each interpreter that starts; two names of one environment count once."""
    environments: dict[tuple[str, str], InstalledEnvironment] = {}
    for start in context.shared(read_starts):
        state = start.state
        if state is not None and (state.prefix, state.version) not in environments:
            environments[state.prefix, state.version] = InstalledEnvironment(
                target=start.target, state=state, sites=tuple(site_directories(state, context))
            )
    return tuple(environments.values())


def read_records(context: CheckContext) -> Records:
    """The files of each wheel in each environment, by its dist-info: without bytecode and scripts."""
    records: dict[Path, tuple[RecordedFile, ...]] = {}
    for environment in context.shared(read_environments):
        for package in environment.installed:
            if package.is_wheel and package.folder not in records:
                records[package.folder] = tuple(
                    file
                    for file in read_record(package.folder)
                    if file.digest and file.is_in_site and not file.path.endswith(".pyc")
                )
    return records


def _start(context: CheckContext, target: TargetInterpreter) -> InterpreterAttempt:
    if not os.access(target.python, os.X_OK):
        return InterpreterAttempt(target=target, state=None, failure=_no_program(target.python))
    attempt = _attempt(context, target, context.environ)
    if attempt.state is not None:
        return attempt
    clean = _attempt(context, target, clean_environment(context.environ))
    if clean.state is None:
        bare = _attempt(context, target, context.environ, "-S")
        return replace(attempt, starts_without_site=bare.state is not None)
    return InterpreterAttempt(
        target=target,
        state=None,
        failure=attempt.failure,
        output=attempt.output,
        needed_without=_culprits(context, target),
    )


def _culprits(context: CheckContext, target: TargetInterpreter) -> tuple[str, ...]:
    """The variables that keep it from starting: one alone, if one is enough."""
    names = sorted(name for name in context.environ if name.startswith("PYTHON"))
    for name in names:
        others = {key: value for key, value in context.environ.items() if key != name}
        if _attempt(context, target, others).state is not None:
            return (name,)
    return tuple(names)


def _attempt(
    context: CheckContext, target: TargetInterpreter, environ: Mapping[str, str], *options: str
) -> InterpreterAttempt:
    quiet = {**environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ran, state = start_python(
            lambda words: context.run(words, environ=quiet), target.python, *options
        )
    except OSError as error:
        return InterpreterAttempt(target=target, state=None, failure=error.strerror or str(error))
    return InterpreterAttempt(
        target=target,
        state=state,
        failure=ran.last_words[:_LONGEST],
        output=ran.stderr.strip()[-_LONGEST:],
    )


def _no_program(python: Path) -> str:
    """Why `python` cannot be run."""
    reason = absence(python)
    if reason is None:
        return "it is not executable"
    real = os.path.realpath(python)
    return f"it links to {real}, which {reason}" if real != str(python) else f"it {reason}"


def site_directories(state: PythonState, context: CheckContext) -> Iterator[SiteDirectory]:
    """Each directory on sys.path that can hold packages, once, in the order of the search.

    One that cannot be listed has no names.
    """
    real_paths = set()
    pythonpath = {str(entry) for entry in pythonpath_entries(context)}
    for entry in state.path:
        real = os.path.realpath(entry)
        is_stdlib = entry == state.stdlib or entry.endswith("/lib-dynload")
        if real in real_paths or is_stdlib or not os.path.isdir(entry):  # noqa: PTH112
            continue
        real_paths.add(real)
        names = _names(entry)
        yield SiteDirectory(
            path=Path(entry),
            kind=_kind(entry, state, pythonpath),
            names=names,
            packages=tuple(packages_of(Path(entry), names)),
        )


def pythonpath_entries(context: CheckContext) -> list[Path]:
    """The directories that PYTHONPATH names; a relative one is below the job's directory."""
    value = context.environ.get("PYTHONPATH", "")
    entries = [entry for entry in value.split(os.pathsep) if entry]
    # Not resolve(): a link stays on sys.path as it is.
    return [Path(os.path.abspath(context.cwd / entry)) for entry in entries]  # noqa: PTH100


def _kind(entry: str, state: PythonState, pythonpath: set[str]) -> SiteKind:
    # Debian's packages have an egg-info beside a dist-info, and their modules are stripped.
    if entry == _DEBIAN:
        return SiteKind.DEBIAN
    if entry == state.user_dir:
        return SiteKind.USER
    is_site = os.path.basename(entry) in _NAMES  # noqa: PTH119
    if is_site and entry.startswith(f"{state.prefix}/"):
        return SiteKind.OWN
    if entry in pythonpath:
        return SiteKind.PYTHONPATH
    return SiteKind.SYSTEM if is_site else SiteKind.ADDED


def _names(entry: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(entry)))  # noqa: PTH208 - half the time of iterdir
    except OSError:
        return ()
