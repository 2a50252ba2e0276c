# SPDX-License-Identifier: Apache-2.0
"""What runs at every start of an interpreter, what it costs, and what is there but never runs."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.preload.shim_files import PATH_FILE
from ci_doctor.preload.start_cost import Imported, by_package
from ci_doctor.preload.start_files import (
    CUSTOMIZE,
    InterpreterStart,
    StartFileBlock,
    candidates,
    watch_start,
)
from ci_doctor.preload.target import Target

# Microseconds. A start of a CPython takes some 10 ms, and this is also what a shim of ours may cost at most.
HEAVY_US = 5_000
NAMED_US = 1_000  # an import that takes less is not named
WIDTH = 78
_INDENT = " " * 10
_PREFER_A_RULE = "use a preload rule instead: ci-doctor preload install --rule TRIGGER=MODULE"


class StartFile(Struct, frozen=True, kw_only=True):
    """A file that runs at every start.

    `lines` are the import lines of a `.pth` file; `imports` names what is heavy in it, in microseconds; `everywhere`: it
    runs under `-I` too, as all does but what lies in the user's site directory.
    """

    path: str
    lines: tuple[str, ...]
    cost_us: int
    imports: dict[str, int]
    everywhere: bool


class NeverRun(Struct, frozen=True, kw_only=True):
    """A sitecustomize or usercustomize that is never imported, because `by` comes first, or for the reason `by`."""

    path: str
    by: str


class Inventory(Struct, frozen=True, kw_only=True):
    """What `inventory` found: `lines` for a report, each with its indentation, and the findings."""

    files: tuple[StartFile, ...]
    never: tuple[NeverRun, ...]
    lines: tuple[str, ...]
    findings: tuple[Finding, ...]


def inventory(target: Target, *, environ: Mapping[str, str] = os.environ) -> Inventory:
    """Start `target` a few times without the job's PYTHONPATH, and once more with it where `environ` has one.

    Raises InfraError where the interpreter does not start or does not tell.
    """
    start = watch_start(target)
    files = tuple(
        found for block in start.blocks if (found := _start_file(block, start)) is not None
    )
    never = tuple(each for name in CUSTOMIZE for each in _never_run(name, start))
    pythonpath = environ.get("PYTHONPATH")
    job = watch_start(target, pythonpath=pythonpath, starts=1) if pythonpath else start
    brought = {
        name: file for name in CUSTOMIZE if (file := _ran(name, job)) and file != _ran(name, start)
    }
    findings = (
        *(_shadowed(each) for each in never),
        *(
            _heavy(each, target)
            for each in files
            if _is_customize(each) and each.cost_us > HEAVY_US
        ),
        *(_from_the_job(name, file, _ran(name, start)) for name, file in brought.items()),
    )
    return Inventory(
        files=files, never=never, lines=_lines(target, files, never, brought), findings=findings
    )


def heavy_imports(imports: Sequence[Imported], name: str) -> dict[str, int]:
    """What a file imports directly, with microseconds, and the package in which most of that time goes. Pure.

    `name` is the file's own module where it is one. Costliest first; nothing below NAMED_US.
    """
    below = [each for each in imports if each.name != name]
    top = min((each.depth for each in below), default=0)
    direct: dict[str, int] = {}
    for each in below:
        if each.depth == top:
            direct[each.name] = direct.get(each.name, 0) + each.cumulative_us
    package, own = next(iter(by_package(below).items()), ("", 0))
    if own * 3 > sum(direct.values()) and package not in {
        each.partition(".")[0] for each in direct
    }:
        direct[package] = own
    return {
        each: cost
        for each, cost in sorted(direct.items(), key=lambda item: -item[1])
        if cost >= NAMED_US
    }


def _start_file(block: StartFileBlock, start: InterpreterStart) -> StartFile | None:
    """None for a `.pth` file that only adds paths, and for a customize module that is not there."""
    if block.name in CUSTOMIZE:
        lines: tuple[str, ...] = ()
        path = _ran(block.name, start)
    else:
        lines = _import_lines(Path(block.name))
        path = block.name if lines else None
    if path is None:
        return None
    in_user_dir = Path(path).is_relative_to(start.user_dir) if start.user_dir else False
    return StartFile(
        path=path,
        lines=lines,
        cost_us=block.cost_us,
        imports=heavy_imports(block.imports, block.name),
        everywhere=not in_user_dir and block.name != "usercustomize",
    )


def _import_lines(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text("utf-8-sig", "replace")
    except OSError:
        return ()
    return tuple(
        line.rstrip() for line in text.splitlines() if line.startswith(("import ", "import\t"))
    )


def _ran(name: str, start: InterpreterStart) -> str | None:
    """The file that ran. A module that took itself out of sys.modules was the first that could be found."""
    if name == "usercustomize" and not start.user_site:
        return None
    return start.ran.get(name) or next(iter(candidates(name, start.path)), None)


def _never_run(name: str, start: InterpreterStart) -> list[NeverRun]:
    ran = _ran(name, start)
    by = ran or "this interpreter reads no user site directory"
    return [
        NeverRun(path=file, by=by)
        for file in candidates(name, start.path)
        if ran is None or os.path.realpath(file) != os.path.realpath(ran)
    ]


def _is_customize(file: StartFile) -> bool:
    return not file.lines


def _shadowed(each: NeverRun) -> Finding:
    first = f"{each.by} comes first" if Path(each.by).is_absolute() else each.by
    return Finding(
        rule="preload/shadowed",
        severity=Severity.WARNING,
        summary=f"{each.path} never runs: {first}",
        evidence=(Evidence(file=each.path),),
        remedy=_PREFER_A_RULE,
    )


def _heavy(file: StartFile, target: Target) -> Finding:
    because = f" because it imports {_named(file.imports)}" if file.imports else ""
    return Finding(
        rule="preload/sitecustomize-heavy",
        severity=Severity.WARNING,
        summary=f"{file.path} adds {_ms(file.cost_us)} to every start of {target.python}{because}",
        evidence=(Evidence(file=file.path),),
        remedy=_PREFER_A_RULE,
    )


def _from_the_job(name: str, file: str, instead_of: str | None) -> Finding:
    hidden = f", so that {instead_of} does not run" if instead_of else ""
    return Finding(
        rule="preload/sitecustomize-of-the-job",
        severity=Severity.NOTE,
        summary=f"the job's PYTHONPATH brings a {name} that comes first: {file}{hidden}; not under -I or -E",
        evidence=(Evidence(file=file),),
    )


def _lines(
    target: Target,
    files: Sequence[StartFile],
    never: Sequence[NeverRun],
    brought: Mapping[str, str],
) -> tuple[str, ...]:
    lines = ["at every start, in this order:" if files else "nothing runs at every start"]
    for file in files:
        ours = " (this shim)" if Path(file.path).name == PATH_FILE else ""
        path = Path(file.path)
        shown = path.name if path.parent == target.site_dir else path
        lines.append(
            f"{_ms(file.cost_us):>8}  {shown}{ours}{'' if file.everywhere else ' (not under -I)'}"
        )
        lines += [_cut(f"{_INDENT}{line}") for line in file.lines]
        lines += [_cut(f"{_INDENT}brings {_named(file.imports)}")] if file.imports else []
    for each in never:
        lines += [
            f"never run: {each.path}",
            f"{_INDENT}{'behind ' if Path(each.by).is_absolute() else ''}{each.by}",
        ]
    lines += [f"with this PYTHONPATH, {name} is {file}" for name, file in brought.items()]
    return tuple(lines)


def _named(imports: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({_ms(cost)})" for name, cost in list(imports.items())[:3])


def _ms(microseconds: int) -> str:
    return f"{microseconds / 1000:.1f} ms" if microseconds >= 1000 else f"{microseconds} us"


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"
