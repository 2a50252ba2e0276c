# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: what runs at every start of an interpreter, its cost, and what never runs."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.preload import rules
from ci_doctor.preload.start_cost import Imported, by_package
from ci_doctor.preload.start_files import (
    CUSTOMIZE,
    InterpreterStart,
    StartFileBlock,
    candidates,
    watch_start,
)
from ci_doctor.preload.target import Target
from ci_doctor.render.formatting import duration

# Microseconds. A start of CPython takes some 10 ms, and this is also the most that our shim may
# cost.
HEAVY_US = 5_000
# An import that takes less is not named.
NAMED_US = 1_000


class StartFile(Struct, frozen=True, kw_only=True):
    """A file that runs at every start.

    `lines` are the import lines of a `.pth` file. `imports` names what is heavy in it, in
    microseconds. `everywhere`: it runs under `-I` too, as all files do outside the user's site
    directory.
    `stderr` are the lines that it wrote there; `prints`: it wrote to stdout.
    """

    path: str
    lines: tuple[str, ...]
    cost_us: int
    imports: dict[str, int]
    everywhere: bool
    stderr: tuple[str, ...] = ()
    prints: bool = False

    @property
    def is_customize(self) -> bool:
        """Whether it is a sitecustomize or usercustomize."""
        return not self.lines


class NeverRun(Struct, frozen=True, kw_only=True):
    """A sitecustomize or usercustomize that is never imported.

    `by` is the file that comes first, or another reason.
    """

    path: str
    by: str

    @property
    def reason(self) -> str:
        """`by`, as a clause."""
        return f"{self.by} comes first" if Path(self.by).is_absolute() else self.by


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
    for name in CUSTOMIZE:
        never += _never_run(name, start)
    of_the_job: dict[str, str] = {}
    job_files: tuple[StartFile, ...] = ()
    if job is not None:
        of_the_job = _brought(job, start)
        brought = of_the_job.values()
        job_files = tuple(file for file in _start_files(job) if file.path in brought)
    heavy = [file for file in files if file.is_customize and file.cost_us > HEAVY_US]
    findings = [_shadowed(each) for each in never]
    findings += [_heavy(file, python) for file in heavy]
    for name, path in of_the_job.items():
        findings.append(_from_the_job(name, path, _executed(name, start)))
    return Inventory(
        files=files,
        never=tuple(never),
        of_the_job=of_the_job,
        job_files=job_files,
        findings=tuple(findings),
    )


def heavy_imports(imports: Sequence[Imported], name: str) -> dict[str, int]:
    """What a file imports directly, in microseconds, and the package that takes most of it.

    `name` is the file's own module, if it is one. Costliest first; nothing below NAMED_US.
    """
    below = [each for each in imports if each.name != name]
    costs = _direct_costs(below)
    packages = {module.partition(".")[0] for module in costs}
    ranking = list(by_package(below).items())
    package, own_us = ranking[0] if ranking else ("", 0)
    # Behind a thin wrapper: the wrapper alone would explain nothing.
    if own_us * 3 > sum(costs.values()) and package not in packages:
        costs[package] = own_us
    costliest = sorted(costs, key=costs.__getitem__, reverse=True)
    return {module: costs[module] for module in costliest if costs[module] >= NAMED_US}


def _direct_costs(imports: Sequence[Imported]) -> dict[str, int]:
    """Microseconds of the imports that no other of `imports` caused, with all they caused."""
    costs: dict[str, int] = {}
    top = min((each.depth for each in imports), default=0)
    for each in imports:
        if each.depth == top:
            costs[each.name] = costs.get(each.name, 0) + each.cumulative_us
    return costs


def in_words(imports: Mapping[str, int]) -> str:
    """The three costliest of `imports`, as `torch (1.2 s), json (3 ms)`."""
    texts = [f"{name} ({duration(cost / 1e6)})" for name, cost in imports.items()]
    return ", ".join(texts[:3])


def _start_files(start: InterpreterStart) -> Iterator[StartFile]:
    for block in start.blocks:
        lines: tuple[str, ...] = ()
        if block.name in CUSTOMIZE:
            path = _executed(block.name, start)
        else:
            lines = _import_lines(Path(block.name))
            # A `.pth` file without import lines only adds paths.
            path = block.name if lines else None
        if path is not None:
            yield _start_file(block, start, path, lines)


def _start_file(
    block: StartFileBlock, start: InterpreterStart, path: str, lines: tuple[str, ...]
) -> StartFile:
    in_user_dir = bool(start.user_dir) and Path(path).is_relative_to(start.user_dir or "")
    return StartFile(
        path=path,
        lines=lines,
        cost_us=block.cost_us,
        imports=heavy_imports(block.imports, block.name),
        everywhere=not in_user_dir and block.name != "usercustomize",
        stderr=block.stderr,
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


def _brought(job: InterpreterStart, start: InterpreterStart) -> dict[str, str]:
    """The files that run in the job's start, and not in one without its PYTHONPATH."""
    brought = {}
    for name in CUSTOMIZE:
        file = _executed(name, job)
        if file and file != _executed(name, start):
            brought[name] = file
    return brought


def _shadowed(each: NeverRun) -> Finding:
    return rules.SHADOWED.finding(
        f"{each.path} never runs: {each.reason}",
        evidence=(Evidence(file=each.path),),
        remedy=rules.SHADOWED.remedy,
    )


def _heavy(file: StartFile, python: Path) -> Finding:
    because = f" because it imports {in_words(file.imports)}" if file.imports else ""
    cost = duration(file.cost_us / 1e6)
    return rules.SITECUSTOMIZE_HEAVY.finding(
        f"{file.path} adds {cost} to every start of {python}{because}",
        evidence=(Evidence(file=file.path),),
        remedy=rules.SITECUSTOMIZE_HEAVY.remedy,
    )


def _from_the_job(name: str, file: str, hidden: str | None) -> Finding:
    effect = f", so that {hidden} does not run" if hidden else ""
    return rules.SITECUSTOMIZE_OF_THE_JOB.finding(
        f"the job's PYTHONPATH brings a {name} that comes first: {file}{effect}; "
        "not under -I or -E",
        evidence=(Evidence(file=file),),
    )
