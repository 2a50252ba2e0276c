# SPDX-License-Identifier: Apache-2.0
"""Acts on processes, reads files: `preload status`, from a request to an outcome."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import CiDoctorError
from ci_doctor.model.facts.preload import NeverRunFact, ShimFact, StartFileFact, StatusFacts
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row, seconds
from ci_doctor.preload.interpreters import Interpreters, find_interpreters
from ci_doctor.preload.inventory import Inventory, StartFile, in_words, inventory
from ci_doctor.preload.outcome.refused import refusal_fact, refusal_table, site_dir_of, worst
from ci_doctor.preload.preload_rule import format_rules
from ci_doctor.preload.result import Refused
from ci_doctor.preload.shim_files import PATH_FILE
from ci_doctor.preload.status import ShimStatus, status_each

# Characters of a `.pth` line that are shown.
_WIDTH = 60


class _Report(Struct, frozen=True, kw_only=True):
    """One shim; `start` is None for what the interpreter no longer reads."""

    shim: ShimStatus
    start: Inventory | None


def status(interpreters: Interpreters, *, environ: Mapping[str, str] = os.environ) -> Outcome:
    """Which shim each interpreter has, its condition, and what else runs at every start.

    Nothing is judged. Raises UsageError if there is no interpreter.
    """
    reports: list[_Report] = []
    refused: list[Refused] = []
    for python in find_interpreters(interpreters, environ):
        if isinstance(python, Refused):
            refused.append(python)
            continue
        try:
            reports += _reports(python, environ)
        except CiDoctorError as error:
            refused.append(Refused(python=python, error=error))
    return _outcome(reports, refused)


def start_up_table(target_python: Path, site_dir: Path, start: Inventory) -> Table:
    """What runs at every start with its cost, and what never runs."""
    rows: list[Row] = []
    if not start.files:
        rows.append(row("nothing runs at every start"))
    for file in start.files:
        rows += _file_rows(file, site_dir)
    rows += [row(f"never run: {each.path}", each.reason) for each in start.never]
    for name, path in start.of_the_job.items():
        rows.append(row(f"with this PYTHONPATH, {name} is {path}"))
    return Table(title=f"Start-up files of {target_python}", rows=tuple(rows))


def _reports(python: Path, environ: Mapping[str, str]) -> list[_Report]:
    current, *former = status_each(python)
    start = inventory(current.target, environ=environ)
    reports = [_Report(shim=current, start=start)]
    reports += [_Report(shim=shim, start=None) for shim in former]
    return reports


def _outcome(reports: list[_Report], refused: list[Refused]) -> Outcome:
    installed = sum(report.shim.installed for report in reports)
    tables: list[Table] = []
    for report in reports:
        tables += _tables(report)
    tables += [refusal_table(each) for each in refused]
    facts = [_fact(report) for report in reports] + [_refused(each) for each in refused]
    verdict, error = worst(refused) if refused else (None, None)
    count = len(reports) + len(refused)
    return Outcome(
        verdict=verdict,
        error=error,
        summary=f"a shim is installed in {installed} of {count} interpreters",
        findings=tuple(_findings(reports)),
        tables=tuple(tables),
        facts=StatusFacts(shims=tuple(facts)),
    )


def _findings(reports: list[_Report]) -> Iterator[Finding]:
    for report in reports:
        if report.start is not None:
            yield from report.start.findings


def _tables(report: _Report) -> Iterator[Table]:
    target = report.shim.target
    rows = tuple(_rows(report.shim, is_former=report.start is None))
    yield Table(title=str(target.python), rows=rows)
    if report.start is not None:
        yield start_up_table(target.python, target.site_dir, report.start)


def _rows(shim: ShimStatus, *, is_former: bool) -> Iterator[Row]:
    yield row("site directory", str(shim.target.site_dir))
    if is_former:
        yield row(
            "of an earlier minor version",
            "this interpreter does not read it; `ci-doctor preload remove` clears it",
        )
    for text in format_rules(shim.rules):
        yield row("rule", text)
    if not shim.rules:
        yield row("no rule")
    for name, condition in shim.files.items():
        yield row(name, str(condition))
    if shim.outdated:
        yield row(
            "written by another version of ci-doctor",
            "`ci-doctor preload install` with the same rules updates it",
        )
    for path in shim.cut_off:
        yield row(path.name, "remainder of a write; the next install or remove clears it")


def _file_rows(file: StartFile, site_dir: Path) -> Iterator[Row]:
    path = Path(file.path)
    name = path.name if path.parent == site_dir else file.path
    notes = []
    if path.name == PATH_FILE:
        notes.append("this shim")
    if not file.everywhere:
        notes.append("not under -I")
    yield row(name, seconds(file.cost_us / 1e6), ", ".join(notes))
    for line in file.lines:
        yield row("", "runs", _cut(line))
    if file.imports:
        yield row("", "imports", in_words(file.imports))


def _cut(line: str) -> str:
    # A `.pth` line may hold a whole program.
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


def _fact(report: _Report) -> ShimFact:
    shim = report.shim
    return ShimFact(
        python=str(shim.target.python),
        version=shim.target.version_text,
        site_dir=str(shim.target.site_dir),
        state="former" if report.start is None else "asked",
        installed=shim.installed,
        outdated=shim.outdated,
        rules=format_rules(shim.rules),
        files=dict(shim.files),
        cut_off=tuple(map(str, shim.cut_off)),
        start_up=None if report.start is None else _start_up(report.start),
    )


def _start_up(start: Inventory) -> tuple[tuple[StartFileFact, ...], tuple[NeverRunFact, ...]]:
    files = tuple(map(_start_file, start.files))
    never = tuple(NeverRunFact(path=each.path, by=each.by) for each in start.never)
    return files, never


def _start_file(file: StartFile) -> StartFileFact:
    return StartFileFact(
        path=file.path,
        lines=file.lines,
        cost_us=file.cost_us,
        imports=file.imports,
        everywhere=file.everywhere,
    )


def _refused(result: Refused) -> ShimFact:
    return ShimFact(
        python=str(result.python),
        site_dir=site_dir_of(result),
        state="refused",
        refused=refusal_fact(result.error),
    )
