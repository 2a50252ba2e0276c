# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: what runs at every start of an interpreter, its cost, and what never runs."""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.machine.interpreters import ask, clean_environment
from ci_doctor.model.facts.preload import NeverRun, StartFile
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.rule import Rule
from ci_doctor.preload.interpreter import Target
from ci_doctor.render.formatting import duration

SHADOWED: Final = Rule(
    id="preload/shadowed",
    severity=Severity.WARNING,
    meaning=(
        "A sitecustomize or usercustomize exists and never runs. Another one comes first on "
        "sys.path (Debian's own precedes that of a virtual environment), "
        "or the interpreter reads no user site directory."
    ),
    remedy=(
        "Remove the file, or use a preload rule, which does not depend on the order of sys.path: "
        "`ci-doctor preload install --rule TRIGGER=MODULE`."
    ),
)
SITECUSTOMIZE_HEAVY: Final = Rule(
    id="preload/sitecustomize-heavy",
    severity=Severity.WARNING,
    meaning=(
        "A sitecustomize or usercustomize takes more than 5 ms of every start, half of what a bare "
        "start takes. Every `python -c`, pip and subprocess pays for it."
    ),
    remedy=(
        "Use a preload rule, which costs only the programs that import its trigger: "
        "`ci-doctor preload install --rule TRIGGER=MODULE`."
    ),
)
SITECUSTOMIZE_OF_THE_JOB: Final = Rule(
    id="preload/sitecustomize-of-the-job",
    severity=Severity.NOTE,
    meaning=(
        "PYTHONPATH brings a sitecustomize that comes before the interpreter's own. "
        "Monitoring agents do this on purpose."
    ),
    remedy="Nothing, if it is intended; under `-I` and `-E` it does not run.",
)
RULES: Final = (SHADOWED, SITECUSTOMIZE_HEAVY, SITECUSTOMIZE_OF_THE_JOB)

CUSTOMIZE = ("sitecustomize", "usercustomize")
START_TIMEOUT_S = 60.0
# Microseconds. A start of CPython takes some 10 ms, and this is also the most that our shim may
# cost.
HEAVY_US = 5_000
# An import that takes less is not named.
NAMED_US = 1_000
_PROBE = Path(__file__).parent / "stub" / "start_probe.py"
_BEGIN = "ci-doctor: begin "
_END = "ci-doctor: end "
_PATH = "ci-doctor: path "
_IMPORT_TIME = "import time:"
_LINE = re.compile(r"import time:\s+(-?\d+) \|\s+(-?\d+) \|( +)(\S+)$")


class Imported(Struct, frozen=True, kw_only=True):
    """One line of `-X importtime`: microseconds alone and with its imports; `depth` from 0."""

    name: str
    self_us: int
    cumulative_us: int
    depth: int


def read_importtime(text: str) -> tuple[Imported, ...]:
    """The imports that `-X importtime` printed among other lines, in the order of their ends."""
    imports = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            continue
        # Each level of depth is two spaces, after the one behind the bar.
        depth = (len(match[3]) - 1) // 2
        own, cumulative = int(match[1]), int(match[2])
        imports.append(Imported(name=match[4], self_us=own, cumulative_us=cumulative, depth=depth))
    return tuple(imports)


class StartFileBlock(Struct, kw_only=True):
    """What one file did at a start.

    `name` is the path of a `.pth` file, or one of CUSTOMIZE. `cost_us` excludes the files that it
    started in turn. `imports` is everything that was imported, in the order of the ends. `stderr`
    are the other lines that it wrote there, each once.
    """

    name: str
    cost_us: int = 0
    imports: list[Imported] = []
    stderr: list[str] = []


class InterpreterStart(Struct, frozen=True, kw_only=True):
    """One start.

    `path` is sys.path when sitecustomize was looked for; `ran` has the file of each of CUSTOMIZE
    that was imported, or None; `user_dir` is the user's site directory, which is read if
    `user_site`. `printing` names the files that wrote to stdout.
    """

    path: tuple[str, ...]
    ran: dict[str, str | None]
    user_site: bool
    user_dir: str | None
    printing: tuple[str, ...] = ()
    blocks: tuple[StartFileBlock, ...] = ()

    @property
    def cost_us(self) -> int:
        """Microseconds of all files together."""
        return sum(block.cost_us for block in self.blocks)


def watch_start(
    target: Target, *, pythonpath: str | None = None, starts: int = 3
) -> InterpreterStart:
    """An ordinary start of `target`, the quickest of `starts` starts.

    `pythonpath` is the job's PYTHONPATH; None starts without that variable. Raises InfraError if
    the interpreter does not report its start.
    """
    environment = start_environment(os.environ, pythonpath)
    # The first start, which reads the files from disk, does not count. The quickest of the others:
    # a busy machine must not add to the cost of files.
    watched = [_watch_once(target, environment) for _ in range(starts + 1)][1:]
    return min(watched, key=lambda start: start.cost_us)


class _Report(Struct, kw_only=True):
    """The probe's stderr: the blocks by name, the files that run yet, sys.path if it was written.

    `running` has, with each name, the microseconds of the files that it has started.
    """

    blocks: dict[str, StartFileBlock]
    running: list[tuple[str, int]]
    path: tuple[str, ...] = ()


def _read_report(text: str) -> _Report:
    report = _Report(blocks={}, running=[])
    running = report.running
    for line in text.splitlines():
        if line.startswith(_BEGIN):
            name = line.removeprefix(_BEGIN)
            running.append((name, 0))
            report.blocks.setdefault(name, StartFileBlock(name=name))
        elif line.startswith(_END) and running:
            name, inner_us = running.pop()
            spent_us = int(line.rpartition(" ")[2])
            report.blocks[name].cost_us += spent_us - inner_us
            if running:
                running[-1] = (running[-1][0], running[-1][1] + spent_us)
        elif line.startswith(_PATH):
            report.path = tuple(line.removeprefix(_PATH).split(os.pathsep))
        elif running:
            block = report.blocks[running[-1][0]]
            block.imports += read_importtime(line)
            block.stderr += [each for each in written_by_files(line) if each not in block.stderr]
    return report


def read_blocks(text: str) -> tuple[StartFileBlock, ...]:
    """The blocks in what the probe wrote to stderr, in the order of their beginnings, one per file.

    The import lines of a virtual environment's `.pth` files run twice (python/cpython#75723): both
    count.
    """
    return tuple(_read_report(text).blocks.values())


def running_file(text: str) -> str | None:
    """The file that had begun, and not ended, when the probe had written `text` to stderr."""
    report = _read_report(text)
    if not report.running:
        return None
    name = report.running[-1][0]
    # A `.pth` file is named by its path already.
    files = candidates(name, report.path) if name in CUSTOMIZE else ()
    return files[0] if files else name


def written_by_files(text: str) -> list[str]:
    """The lines of `text`, the probe's stderr, that neither it nor `-X importtime` wrote."""
    own = (_BEGIN, _END, _PATH, _IMPORT_TIME)
    return [line for line in text.splitlines() if line.strip() and not line.startswith(own)]


def candidates(name: str, path: Sequence[str]) -> tuple[str, ...]:
    """The files that `import NAME` would find on `path`; only the first of them runs."""
    # sys.path may name one directory twice, through a link.
    files: dict[str, str] = {}
    for entry in path:
        file = _module_file(name, Path(entry))
        if file is not None:
            files.setdefault(os.path.realpath(file), str(file))
    return tuple(files.values())


def _module_file(name: str, directory: Path) -> Path | None:
    """The file of the module `name` in `directory`, in the import system's order."""
    extensions: list[Path] = []
    with contextlib.suppress(OSError):
        extensions = sorted(directory.glob(f"{name}.*.so"))
    package = directory / name / "__init__.py"
    for file in (package, *extensions, directory / f"{name}.py", directory / f"{name}.pyc"):
        # As the import system: what cannot be reached is not there. pathlib would raise.
        if os.path.isfile(file):  # noqa: PTH113
            return file
    return None


def _watch_once(target: Target, environment: Mapping[str, str]) -> InterpreterStart:
    words = start_words(target.python)[1:]
    answer = ask(target.python, *words, timeout_s=START_TIMEOUT_S, environment=environment)
    if answer.exit_code is None:
        raise InfraError(
            f"{target.python} did not start within {START_TIMEOUT_S:.0f} s",
            hint="look at its `.pth` files",
        )
    start = read_start(answer.stdout, answer.stderr)
    if start is None:
        raise InfraError(
            f"{target.python} did not report what it starts: {answer.last_words}",
            hint=f"run `{target.python} -S -X importtime {_PROBE}`",
        )
    return start


def start_words(python: Path) -> tuple[str, ...]:
    """The command that starts `python` and reports what it starts."""
    return (str(python), "-S", "-X", "importtime", str(_PROBE))


def start_environment(environ: Mapping[str, str], pythonpath: str | None) -> dict[str, str]:
    """`environ` for an ordinary start, with this PYTHONPATH or without any."""
    environment = clean_environment(environ)
    # What its files import must not leave bytecode behind.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if pythonpath:
        environment["PYTHONPATH"] = pythonpath
    return environment


def read_start(stdout: str, stderr: str) -> InterpreterStart | None:
    """What the probe reported; None if it reported nothing."""
    lines = stdout.strip().splitlines()
    try:
        # Not msgspec's reader: it refuses the surrogates of a path that is no UTF-8 (PEP 383).
        start = msgspec.convert(json.loads(lines[-1]), InterpreterStart)
    except (ValueError, msgspec.ValidationError, IndexError):
        return None
    return msgspec.structs.replace(start, blocks=read_blocks(stderr))


class Inventory(Struct, frozen=True, kw_only=True):
    """The start-up files of an interpreter.

    `of_the_job` are the files that the job's PYTHONPATH brings, by the name of the module;
    `job_files` the same as they ran.
    """

    files: tuple[StartFile, ...]
    never: tuple[NeverRun, ...]
    of_the_job: dict[str, str]
    job_files: tuple[StartFile, ...] = ()
    findings: tuple[Finding, ...] = ()


def inventory(target: Target, *, environ: Mapping[str, str] = os.environ) -> Inventory:
    """Start `target` without the job's PYTHONPATH, and once more with it if `environ` has one.

    Raises InfraError if the interpreter does not start or does not report its start.
    """
    start = watch_start(target)
    pythonpath = environ.get("PYTHONPATH")
    job = None
    if pythonpath:
        job = watch_start(target, pythonpath=pythonpath, starts=1)
    return inventory_of(target.python, start, job)


def inventory_of(python: Path, start: InterpreterStart, job: InterpreterStart | None) -> Inventory:
    """What ran at `start` of `python`, and what never runs; `job` is a start with its PYTHONPATH."""
    files = tuple(_start_files(start))
    never: list[NeverRun] = []
    findings: list[Finding] = []
    for name in CUSTOMIZE:
        never += _never_run(name, start)
    for each in never:
        evidence = (Evidence(file=each.path),)
        summary = f"{each.path} never runs: {each.reason}"
        findings.append(SHADOWED.finding(summary, evidence=evidence, remedy=SHADOWED.remedy))
    for file in files:
        if file.is_customize and file.cost_us > HEAVY_US:
            evidence = (Evidence(file=file.path),)
            remedy = SITECUSTOMIZE_HEAVY.remedy
            summary = describe_cost(file, python)
            findings.append(SITECUSTOMIZE_HEAVY.finding(summary, evidence=evidence, remedy=remedy))
    # The files that run in the job's start, and not in one without its PYTHONPATH.
    of_the_job: dict[str, str] = {}
    for name in CUSTOMIZE if job is not None else ():
        path = _executed(name, job or start)
        hidden = _executed(name, start)
        if path and path != hidden:
            of_the_job[name] = path
            effect = f", so that {hidden} does not run" if hidden else ""
            finding = SITECUSTOMIZE_OF_THE_JOB.finding(
                f"the job's PYTHONPATH brings a {name} that comes first: {path}{effect}; "
                "not under -I or -E",
                evidence=(Evidence(file=path),),
            )
            findings.append(finding)
    brought = of_the_job.values()
    return Inventory(
        files=files,
        never=tuple(never),
        of_the_job=of_the_job,
        job_files=tuple(each for each in _start_files(job or start) if each.path in brought),
        findings=tuple(findings),
    )


def describe_cost(file: StartFile, python: Path) -> str:
    """What `file` adds to a start of `python`, and what is heavy in it."""
    because = f" because it imports {in_words(file.imports)}" if file.imports else ""
    return f"{file.path} adds {duration(file.cost_us / 1e6)} to every start of {python}{because}"


def heavy_imports(imports: Sequence[Imported], name: str) -> dict[str, int]:
    """What a file imports directly, in microseconds, and the package that takes most of it.

    `name` is the file's own module, if it is one. Costliest first; nothing below NAMED_US.
    """
    below = [each for each in imports if each.name != name]
    top = min((each.depth for each in below), default=0)
    # Those that no other import caused, with all that they caused; and each package's own time.
    costs: dict[str, int] = {}
    own_us: dict[str, int] = {}
    for each in below:
        package = each.name.partition(".")[0]
        own_us[package] = own_us.get(package, 0) + each.self_us
        if each.depth == top:
            costs[each.name] = costs.get(each.name, 0) + each.cumulative_us
    package = max(own_us, key=own_us.__getitem__, default="")
    # Behind a thin wrapper: the wrapper alone would explain nothing.
    is_named = package in {module.partition(".")[0] for module in costs}
    if package and not is_named and own_us[package] * 3 > sum(costs.values()):
        costs[package] = own_us[package]
    costliest = sorted(costs, key=costs.__getitem__, reverse=True)
    return {module: costs[module] for module in costliest if costs[module] >= NAMED_US}


def in_words(imports: Mapping[str, int]) -> str:
    """The three costliest of `imports`, as `torch (1.2 s), json (3 ms)`."""
    texts = [f"{name} ({duration(cost / 1e6)})" for name, cost in imports.items()]
    return ", ".join(texts[:3])


def _start_files(start: InterpreterStart) -> Iterator[StartFile]:
    for block in start.blocks:
        lines: tuple[str, ...] = ()
        path: str | None = block.name
        if block.name in CUSTOMIZE:
            path = _executed(block.name, start)
        else:
            lines = _import_lines(Path(block.name))
        # A `.pth` file without import lines only adds paths.
        if path is None or not (lines or block.name in CUSTOMIZE):
            continue
        in_user_dir = bool(start.user_dir) and Path(path).is_relative_to(start.user_dir or "")
        yield StartFile(
            path=path,
            lines=lines,
            cost_us=block.cost_us,
            imports=heavy_imports(block.imports, block.name),
            everywhere=not in_user_dir and block.name != "usercustomize",
            stderr=tuple(block.stderr),
            prints=block.name in start.printing,
        )


def _import_lines(path: Path) -> tuple[str, ...]:
    """The lines that `site` executes: those that begin with `import` and a space or a tab."""
    try:
        text = path.read_text("utf-8-sig", "replace")
    except OSError:
        return ()
    lines = [line.rstrip() for line in text.splitlines()]
    return tuple(line for line in lines if line.startswith(("import ", "import\t")))


def _executed(name: str, start: InterpreterStart) -> str | None:
    """The file that ran as `name`."""
    if name == "usercustomize" and not start.user_site:
        return None
    file = start.ran.get(name)
    if file:
        return file
    # A module that removed itself from sys.modules was the first one on the path.
    files = candidates(name, start.path)
    return files[0] if files else None


def _never_run(name: str, start: InterpreterStart) -> list[NeverRun]:
    """The files of the module `name` other than the one that ran."""
    files = candidates(name, start.path)
    executed = _executed(name, start)
    if executed is None:
        reason = "this interpreter reads no user site directory"
        return [NeverRun(path=file, by=reason) for file in files]
    same = os.path.realpath(executed)
    return [NeverRun(path=file, by=executed) for file in files if os.path.realpath(file) != same]
