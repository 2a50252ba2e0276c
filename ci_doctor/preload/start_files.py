# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: what runs at every start of an interpreter, what of it is heavy or never runs."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.machine.start_files import (
    CUSTOMIZE,
    Imported,
    InterpreterStart,
    candidates,
    watch_start,
)
from ci_doctor.model.facts.preload import NeverRun, StartFile
from ci_doctor.model.finding import Evidence, Finding, Rule, Severity
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

# Microseconds. A start of CPython takes some 10 ms, and this is also the most that our shim may
# cost.
HEAVY_US = 5_000
# An import that takes less is not named.
NAMED_US = 1_000


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
    start = watch_start(target.python)
    path = environ.get("PYTHONPATH")
    job = watch_start(target.python, pythonpath=path, starts=1) if path else None
    return inventory_of(target.python, start, job)


def inventory_of(python: Path, start: InterpreterStart, job: InterpreterStart | None) -> Inventory:
    """What ran at `start` of `python`, and what never runs; `job` is a start with its PYTHONPATH."""
    job = start if job is None else job
    files = tuple(_start_files(start))
    never = [each for name in CUSTOMIZE for each in _never_run(name, start)]
    findings = [
        SHADOWED.finding(
            f"{each.path} never runs: {each.reason}",
            evidence=(Evidence(file=each.path),),
            remedy=SHADOWED.remedy,
        )
        for each in never
    ]
    findings += [
        SITECUSTOMIZE_HEAVY.finding(
            describe_cost(file, python),
            evidence=(Evidence(file=file.path),),
            remedy=SITECUSTOMIZE_HEAVY.remedy,
        )
        for file in files
        if file.is_customize and file.cost_us > HEAVY_US
    ]
    # The files that run in the job's start, and not in one without its PYTHONPATH.
    of_the_job: dict[str, str] = {}
    for name in CUSTOMIZE:
        path = _executed(name, job)
        hidden = _executed(name, start)
        if path and path != hidden:
            of_the_job[name] = path
            effect = f", so that {hidden} does not run" if hidden else ""
            findings.append(
                SITECUSTOMIZE_OF_THE_JOB.finding(
                    f"the job's PYTHONPATH brings a {name} that comes first: {path}{effect}; "
                    "not under -I or -E",
                    evidence=(Evidence(file=path),),
                )
            )
    return Inventory(
        files=files,
        never=tuple(never),
        of_the_job=of_the_job,
        job_files=tuple(each for each in _start_files(job) if each.path in of_the_job.values()),
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
        is_custom = block.name in CUSTOMIZE
        path = _executed(block.name, start) if is_custom else block.name
        lines = () if is_custom else _import_lines(Path(block.name))
        # A `.pth` file without import lines only adds paths.
        if path is None or not (lines or is_custom):
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
    # A module that removed itself from sys.modules was the first one on the path.
    return start.ran.get(name) or next(iter(candidates(name, start.path)), None)


def _never_run(name: str, start: InterpreterStart) -> list[NeverRun]:
    """The files of the module `name` other than the one that ran."""
    files = candidates(name, start.path)
    executed = _executed(name, start)
    if executed is None:
        reason = "this interpreter reads no user site directory"
        return [NeverRun(path=file, by=reason) for file in files]
    same = os.path.realpath(executed)
    return [NeverRun(path=file, by=executed) for file in files if os.path.realpath(file) != same]
