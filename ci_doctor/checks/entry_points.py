# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts the entry points of the job in fresh processes, and says why one fails."""

import os
import re
import shlex
import shutil
import signal
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    DoctorCheck,
    Fault,
    Findings,
    Need,
    Problem,
    UndeterminedError,
    check,
    problem,
    unknown_result,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.settings import ALL, SERVING, DoctorSettings, Workload
from ci_doctor.diagnosis.log_end import LogEnd, read_log_end
from ci_doctor.machine.gpus import shows_gpu
from ci_doctor.model.cause import Cause
from ci_doctor.model.outcome import Evidence, NextStep, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import duration
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.system import clock
from ci_doctor.system.processes.limited_runs import SeparateRun
from ci_doctor.system.processes.process import describe_exit
from ci_doctor.system.secrets.redaction import Redactor

ENTRY_POINT_FAILS: Final = Rule(
    id="doctor/entry-point-fails",
    severity=Severity.ERROR,
    meaning="An entry point of the job does not start: importing what it needs, or its `--help`, "
    "fails in a fresh process. Every service with this command will fail the same way.",
    remedy="Read the cause in the evidence, and repair what is installed before the job starts.",
)
ENTRY_POINT_MISSING: Final = Rule(
    id="doctor/entry-point-missing",
    severity=Severity.ERROR,
    meaning="The interpreter of the job lacks the package that `--for` names, or a service is "
    "started by a program that is not there.",
    remedy="Install the package into the interpreter that the job runs, or name the right one: "
    "`--python PY`.",
)


class EntryCommand(Struct, frozen=True, kw_only=True):
    """A command to start in a fresh process, where it must end with exit status 0.

    `name` is how a report calls it. `python` is the interpreter that runs it, None if that is not
    known; `module` is what it imports first. `env` goes on top of the job's environment. Without
    `cwd` it runs in the job's directory.
    """

    name: str
    words: tuple[str, ...]
    python: Path | None = None
    module: str | None = None
    env: Mapping[str, str] = {}
    cwd: Path | None = None


# The import of the module, and of nothing below `if __name__ == "__main__"`. A console script does
# not import from its working directory, `python -m` does.
_IMPORT: Final = """
import importlib, sys
_, module, name, is_script = sys.argv
if is_script and sys.path[:1] == [""]:
    del sys.path[0]
value = importlib.import_module(module)
if name:
    getattr(value, name)
"""


def importing(
    name: str,
    python: Path,
    module: str,
    *,
    attribute: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> EntryCommand:
    """The import of `module` by `python`, as `python -m` would; it runs nothing else.

    With `attribute` it is the import of a console script.
    """
    return EntryCommand(
        name=name,
        words=(str(python), "-c", _IMPORT, module, attribute, "script" if attribute else ""),
        python=python,
        module=module,
        env=env or {},
        cwd=cwd,
    )


def checks(settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks that have something to start."""
    chosen = [of_services]
    if settings.workload is not None and Workload(settings.workload) in PACKAGES:
        chosen.insert(0, of_workload)
    if settings.entry_points:
        chosen.append(of_commands)
    return tuple(chosen)


class PackageEntry(Struct, frozen=True, kw_only=True):
    """How a package is started: its console `script`; else a `module` by `-m`, or its import.

    `package` is what must be importable.
    """

    package: str
    script: str | None
    module: str
    runs_module: bool


# vLLM: `vllm = "vllm.entrypoints.cli.main:main"` in its pyproject.toml.
# LMCache: `lmcache = "lmcache.cli.main:main"`; earlier versions have no such script.
# SGLang: the documented `python -m sglang.launch_server`; its newer script `sglang` imports the
# server only behind a subcommand, so its `--help` would show nothing.
PACKAGES: Final = {
    Workload.VLLM: PackageEntry(
        package="vllm", script="vllm", module="vllm.entrypoints.cli.main", runs_module=True
    ),
    Workload.LMCACHE: PackageEntry(
        package="lmcache", script="lmcache", module="lmcache.v1.cache_engine", runs_module=False
    ),
    Workload.SGLANG: PackageEntry(
        package="sglang", script=None, module="sglang.launch_server", runs_module=True
    ),
}


@check(
    "imports/workload",
    title="the entry point of what --for names starts",
    need=Need.INTERPRETER,
    cost=Cost.IMPORT,
    needed_for=SERVING,
)
def of_workload(context: CheckContext) -> Findings:
    workload = context.workload
    if workload is None or workload not in PACKAGES:
        return "--for names no package that has an entry point"
    entries = [entry_point_of(PACKAGES[workload], target.python) for target in context.targets]
    return (yield from judged_starts(entries, context, none="no interpreter"))


def entry_point_of(package: PackageEntry, python: Path) -> EntryCommand:
    """The entry point of `package` in the environment of `python`, asked for its `--help`."""
    name = f"{package.package} of {python}"
    script = python.parent / (package.script or "")
    if script.is_file():
        words: tuple[str, ...] = (str(script), "--help")
    elif package.runs_module:
        words = (str(python), "-m", package.module, "--help")
    else:
        return importing(name, python, package.module)
    return EntryCommand(name=name, words=words, python=python, module=package.module)


@check(
    "imports/services",
    title="the configured services' console scripts can be imported",
    need=Need.SERVICES,
    cost=Cost.IMPORT,
    needed_for=ALL,
)
def of_services(context: CheckContext) -> Findings:
    """What the configured services import at their start; the services themselves are not run."""
    entries: list[EntryCommand] = []
    passed_over: list[str] = []
    unreadable: list[str] = []
    missing: list[str] = []
    for name, spec in context.services.items():
        try:
            entry = entry_point_of_service(name, spec, context.environ, context.cwd)
        except ValueError as error:
            unreadable.append(f"the command of {name}: {error}")
            continue
        except FileNotFoundError as error:
            missing.append(f"service {name} cannot start: there is no program `{error}`")
            yield problem(ENTRY_POINT_MISSING, missing[-1])
            continue
        if isinstance(entry, str):
            passed_over.append(f"{name}: {entry}")
        else:
            entries.append(entry)
    none = "" if missing or passed_over else "no service is started by a console script of Python"
    result = yield from judged_starts(entries, context, none=none)
    return CheckResult(
        summary="; ".join(filter(None, (*missing, result.summary, *passed_over))),
        unknown="; ".join(filter(None, (result.unknown, *unreadable))) or None,
        evidence=result.evidence,
        figures=result.figures,
    )


def entry_point_of_service(
    name: str, spec: ServiceSpec, environ: Mapping[str, str], directory: Path
) -> EntryCommand | str:
    """What the service `name` imports; or why that is not known, as a clause.

    `environ` is the job's environment, `directory` the base of a relative `cwd`. Raises ValueError
    on an unclosed quotation in its command, FileNotFoundError with the program that is not there.
    """
    words = spec.words()
    if not words:
        return "its command is empty"
    place = directory / (spec.cwd or "")
    label = f"service {name}"
    program = _program(words[0], {**environ, **spec.env}, place)
    script = read_console_script(program)
    if script is not None:
        python, entry_module, attribute = script
        return importing(label, python, entry_module, attribute=attribute, env=spec.env)
    module = _module(words[1:]) if program.name.startswith("python") else None
    if module is None:
        return f"`{words[0]}` is no console script of a Python package"
    return importing(label, program, module, env=spec.env, cwd=place)


def _program(word: str, environ: Mapping[str, str], directory: Path) -> Path:
    """The file that runs for `word`. Raises FileNotFoundError with `word` if there is none."""
    path = directory / word if "/" in word else shutil.which(word, path=environ.get("PATH", ""))
    if path is None or not os.access(path, os.X_OK):
        raise FileNotFoundError(word)
    return Path(path)


def _module(arguments: Sequence[str]) -> str | None:
    """The module of `python -m MODULE`; a package is imported, its `__main__` is not."""
    for option, word in pairwise(arguments):
        if option == "-m":
            return word
        # Whatever stands behind a script's name is the script's.
        if not option.startswith("-"):
            return None
    return None


_MOST_BYTES: Final = 16_384
# `from vllm.entrypoints.cli.main import main`: pip, uv, distlib and setuptools all write this line.
_IMPORTED: Final = re.compile(r"^from ([A-Za-z_][\w.]*) import (\w+)\s*$", re.MULTILINE)
_GUARD: Final = re.compile(r"^if __name__ == ['\"]__main__['\"]:", re.MULTILINE)
# Installers write this in front of a long or blank path to the interpreter (PEP 394 has no word).
_BY_SHELL: Final = re.compile(r"^'''exec' (.+) \"\$0\" \"\$@\"$", re.MULTILINE)


def read_console_script(path: Path) -> tuple[Path, str, str] | None:
    """The interpreter of the console script at `path`, its module, and what it imports from there.

    None if it is something else, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    imported = _IMPORTED.search(text)
    if not text.startswith("#!") or imported is None or _GUARD.search(text) is None:
        return None
    by_shell = _BY_SHELL.search(text)
    words = text.partition("\n")[0].removeprefix("#!").split()
    if by_shell is not None:
        words = shlex.split(by_shell[1])
    if not words or "python" not in Path(words[0]).name:
        return None
    return Path(words[0]), imported[1], imported[2]


@check(
    "imports/commands",
    title="the commands of `[doctor] entry_points` end well",
    cost=Cost.IMPORT,
    needed_for=ALL,
)
def of_commands(context: CheckContext) -> Findings:
    entries = []
    for command in context.settings.entry_points:
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise UndeterminedError(f"entry_points: `{command}`: {error}") from error
        entries.append(EntryCommand(name=f"`{command}`", words=words))
    return (
        yield from judged_starts(entries, context, none="`[doctor] entry_points` names no command")
    )


# More at once would read the same disk, and each may take gigabytes of memory.
_AT_ONCE: Final = 2
# Together they have the time of Cost.IMPORT; what is left is for the stacks of one that hangs.
TOGETHER_S: Final = 55.0


def read_turns(_context: CheckContext) -> tuple[threading.Semaphore, float]:
    """The turns of all checks that start entry points, and when the time of all is over.

    For CheckContext.shared.
    """
    return threading.Semaphore(_AT_ONCE), clock.now() + TOGETHER_S


def started(entry: EntryCommand, context: CheckContext) -> SeparateRun | str:
    """How `entry` ended, after a wait for its turn; or why it was not started, as a clause."""
    places, ends_at = context.shared(read_turns)
    with places:
        left_s = ends_at - clock.now()
        if left_s <= 0:
            return f"the {TOGETHER_S:g} s of all entry points were over before its turn"
        # With PYTHONFAULTHANDLER a Python writes the stack of each thread at SIGABRT: where it hangs.
        environ = {**context.environ, **entry.env, "PYTHONFAULTHANDLER": "1"}
        try:
            return context.programs.run(
                entry.words,
                cwd=entry.cwd or context.cwd,
                environ=environ,
                timeout_s=left_s,
                last_signal=signal.SIGABRT,
            )
        except OSError as error:
            return error.strerror or str(error)


def start_all(entries: Sequence[EntryCommand], context: CheckContext) -> list[SeparateRun | str]:
    """How each of `entries` ended, or why it was not started; all are waited for."""
    runs: list[SeparateRun | str] = ["it did not end"] * len(entries)

    def take(place: int, entry: EntryCommand) -> None:
        runs[place] = started(entry, context)

    threads = [threading.Thread(target=take, args=row, daemon=True) for row in enumerate(entries)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return runs


def judged_starts(
    entries: Sequence[EntryCommand], context: CheckContext, *, none: str
) -> Generator[Problem, None, CheckResult]:
    """Start all of `entries`, and say what they show; `none` is the summary if there are none."""
    runs = start_all(entries, context)
    ended = [judge_entry(entry, run, context) for entry, run in zip(entries, runs, strict=True)]
    failed = [found for each in ended for found in each.problems]
    yield from failed
    return CheckResult(
        summary="; ".join(each.summary for each in ended) or none,
        unknown="; ".join(each.unknown for each in ended if each.unknown is not None) or None,
        evidence=tuple(evidence for each in ended for evidence in each.evidence),
        figures={"started": len(ended), "failed": len(failed)},
    )


# Without a GPU these say nothing of the packages: vLLM looks for its device while it is imported.
_WITHOUT_GPU: Final = frozenset({"gpu/device-not-inferred", "gpu/none-available"})
_LONGEST_LINE: Final = 300
_FRAME: Final = re.compile(r'^\s*File "(?P<file>[^"]+)", line \d+', re.MULTILINE)
_NAMED_FILE: Final = re.compile(r"(?<=[('\"])/[^'\")]+\.py\b")
# What faulthandler writes in front of the thread that got the signal.
_STACK: Final = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*$", re.MULTILINE)
_STACK_LINES: Final = 12


def judge_entry(entry: EntryCommand, run: SeparateRun | str, context: CheckContext) -> CheckResult:
    """What `run` shows: it starts, it fails for a cause, or nothing.

    `context` says whether there is a GPU, and what the checkout is.
    """
    if isinstance(run, str):
        return unknown_result(f"{entry.name} was not started: {run}")
    if run.exit_code is None:
        stack = hanging_stack(run)
        place = f", it was in {stack[0]}" if stack else ""
        reason = f"{entry.name} had not ended after {duration(run.duration_s)}{place}"
        return CheckResult(
            summary=reason,
            unknown=reason,
            evidence=(Evidence(excerpt="\n".join(stack)),) if stack else (),
        )
    if run.exit_code == 0:
        return CheckResult(summary=f"{entry.name} starts in {duration(run.duration_s)}")
    return _failed(entry, run, context)


def _failed(entry: EntryCommand, run: SeparateRun, context: CheckContext) -> CheckResult:
    end = _read_end(run)
    cause = end.cause
    line = run.last_words if cause is None else cause.place.text
    # Before it is cut: a half of a secret would not be known as one.
    line = Redactor.from_environment(context.environ, entry.env).text(line.strip())[:_LONGEST_LINE]
    if (
        cause is not None
        and cause.rule in _WITHOUT_GPU
        and not shows_gpu(context.root, context.environ)
    ):
        return unknown_result(f"{entry.name} asks for a GPU, and this machine has none: {line}")
    lines = end.excerpt.lines
    evidence = (Evidence(excerpt="\n".join(lines)),) if lines else ()
    package = (entry.module or "").partition(".")[0]
    # `python -m` (runpy of CPython 3.8 to 3.14) puts the exception in parentheses.
    lacking = rf"ModuleNotFoundError: No module named '{re.escape(package)}'\)?"
    if package and re.search(lacking, run.last_words):
        summary = f"{entry.python} has no package `{package}`"
        return CheckResult(
            summary=summary, problems=(problem(ENTRY_POINT_MISSING, summary, evidence=evidence),)
        )
    summary = f"{entry.name} ends with {describe_exit(run.exit_code or 0)}: {line}"
    failure = problem(
        ENTRY_POINT_FAILS,
        summary,
        evidence=evidence,
        remedy=None if cause is None else remedy_of(entry, cause, context),
        fault=_fault(run, cause, context),
    )
    return CheckResult(summary=summary, problems=(failure,))


def _read_end(run: SeparateRun) -> LogEnd:
    """The lines that say why it ended, and their cause if one can be named."""
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        log.write(run.stdout.encode())
        log.write(run.stderr.encode())
        log.flush()
        return read_log_end(Path(log.name))


def hanging_stack(run: SeparateRun) -> tuple[str, ...]:
    """The stack of the thread in which a hanging Python was, innermost first; () without one."""
    begin = _STACK.search(run.stderr)
    if begin is None:
        return ()
    stack = []
    for line in run.stderr[begin.start() :].splitlines()[1:]:
        if not line.startswith("  "):
            break
        stack.append(line.strip())
    return tuple(stack[:_STACK_LINES])


def _fault(run: SeparateRun, cause: Cause | None, context: CheckContext) -> Fault:
    """The repository's, if the error has no frame, or a file of the job is one or stands in its words."""
    if cause is not None and cause.may_be_retried:
        return Fault.ENVIRONMENT
    places = [Path(frame["file"]) for frame in _FRAME.finditer(run.stderr)]
    # Python names the file that it imported in place of another one.
    words = run.last_words if cause is None else cause.place.text
    named = _NAMED_FILE.findall(words)
    # Without a frame nothing shows that a package of the environment failed.
    if not places or any(map(context.is_of_job, (*places, *map(Path, named)))):
        return Fault.REPOSITORY
    return Fault.ENVIRONMENT


_RECHECK_S: Final = 20.0
# The one reliable list: what such a module is never installed as. A name that an error message
# brings is not installed untold (dependency confusion).
_DISTRIBUTIONS: Final = {
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "flashinfer": "flashinfer-python",
    "git": "gitpython",
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "jwt": "pyjwt",
    "multipart": "python-multipart",
    "pkg_resources": "setuptools<82",
    "pynvml": "nvidia-ml-py",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
# The number in `libcudart.so.13` is the major version of CUDA.
_LIBRARY: Final = re.compile(r"\blib[\w+-]+\.so(?:\.\d+)*")


def remedy_of(entry: EntryCommand, cause: Cause, context: CheckContext) -> NextStep:
    """What to do about an entry point that fails, as a command if one can be pasted."""
    module, name = cause.fields.get("module", ""), cause.fields.get("name", "")
    python = str(entry.python)
    if cause.rule == "import/name-missing" and _works_alone(entry, module, name, context):
        rule = shlex.quote(f"{entry.module}={module}:{name}")
        return ShellCommand(
            f"ci-doctor preload install --python {shlex.quote(python)} --rule {rule}"
        )
    if cause.rule == "import/module-missing":
        known = _DISTRIBUTIONS.get(module) or _DISTRIBUTIONS.get(module.partition(".")[0])
        if known is None or entry.python is None:
            return f"Install the distribution that has the module `{module}`. {cause.remedy}"
        return ShellCommand(shlex.join([python, "-m", "pip", "install", known]))
    library = _LIBRARY.search(cause.place.text)
    if cause.rule == "import/shared-library-missing" and library is not None:
        found = f"{library[0]} is missing: `ldconfig -p | grep {library[0]}` shows where it is."
        return f"{found} {cause.remedy}"
    return cause.remedy


def _works_alone(entry: EntryCommand, module: str, name: str, context: CheckContext) -> bool:
    """Whether the import that failed works by itself in a fresh process: then it was a race."""
    if entry.python is None or entry.module is None or not module or not name:
        return False
    ran = context.programs.run(
        [str(entry.python), "-c", f"from {module} import {name}"],
        cwd=entry.cwd or context.cwd,
        environ={**context.environ, **entry.env},
        timeout_s=_RECHECK_S,
    )
    return ran.exit_code == 0
