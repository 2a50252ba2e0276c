# SPDX-License-Identifier: Apache-2.0
"""Acts on processes, reads files: `preload status`, from a request to an outcome."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.machine.start_files import watch_start
from ci_doctor.model.facts.preload import Shim, StartFile, StatusFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row, seconds
from ci_doctor.preload.interpreter import (
    Interpreters,
    Target,
    each_interpreter,
    inspect_interpreter,
    worst,
)
from ci_doctor.preload.preload_rule import format_rules
from ci_doctor.preload.start_files import PATH_FILE, read_site, shim_files

# Characters of a `.pth` line that are shown.
_WIDTH = 60


def status(interpreters: Interpreters, *, environ: Mapping[str, str] = os.environ) -> Outcome:
    """Which shim each interpreter has, its condition, and what else runs at every start.

    Nothing is judged. Raises UsageError if there is no interpreter.
    """
    tables: list[Table] = []
    shims: list[Shim] = []

    def look(python: Path) -> None:
        target = inspect_interpreter(python)
        shim = shim_of(target)
        files = watch_start(python).files
        shims.append(replace(shim, start_up=files))
        start_up = _start_up_table(python, files, target.site_dir)
        tables.extend([_shim_table(shim), start_up])

    _, refused = each_interpreter(interpreters, environ, look)
    for each in refused:
        tables.append(each.table)
        shims.append(
            Shim(
                python=str(each.python),
                site_dir=each.site_dir,
                state="refused",
                refused=each.refusal,
            )
        )
    installed = sum(shim.installed for shim in shims)
    verdict, error = worst(refused)
    return Outcome(
        verdict=verdict,
        error=error,
        summary=f"a shim is installed in {installed} of {len(shims)} interpreters",
        tables=tuple(tables),
        facts=StatusFacts(shims=tuple(shims)),
    )


def shim_of(target: Target) -> Shim:
    """The shim of `target`, as it lies in its site directory."""
    state = read_site(target.site_dir)
    return Shim(
        python=str(target.python),
        version=target.version_text,
        site_dir=str(target.site_dir),
        installed=state.is_whole,
        outdated=state.is_whole and state.contents != shim_files(state.rules),
        rules=format_rules(state.rules),
        files=state.conditions,
        cut_off=tuple(map(str, state.cut_off)),
    )


def _shim_table(shim: Shim) -> Table:
    rows = [row("site directory", shim.site_dir)]
    rows += [row("rule", text) for text in shim.rules]
    if not shim.rules:
        rows.append(row("no rule"))
    rows += [row(name, str(condition)) for name, condition in shim.files.items()]
    if shim.outdated:
        rows.append(
            row(
                "written by another version of ci-doctor",
                "`ci-doctor preload install` with the same rules updates it",
            )
        )
    clears = "remainder of a write; the next install or remove clears it"
    rows += [row(Path(path).name, clears) for path in shim.cut_off]
    return Table(title=shim.python, rows=tuple(rows))


def _start_up_table(python: Path, files: Sequence[StartFile], site_dir: Path) -> Table:
    """What runs at every start, and the time that it takes."""
    rows: list[Row] = []
    for file in files:
        path = Path(file.path)
        name = path.name if path.parent == site_dir else file.path
        note = "this shim" if path.name == PATH_FILE else ""
        rows.append(row(name, seconds(file.cost_us / 1e6), note))
        # A `.pth` line may hold a whole program.
        shown = (line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in file.lines)
        rows += [row("", "runs", line) for line in shown]
    return Table(
        title=f"Start-up files of {python}",
        rows=tuple(rows) or (row("nothing runs at every start"),),
    )
