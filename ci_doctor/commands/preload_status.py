# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload status`."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import config_option, output_options
from ci_doctor.commands.preload_options import pythons_meant, settings_of, target_options
from ci_doctor.errors import CiDoctorError

if TYPE_CHECKING:
    from ci_doctor.model.report import Report
    from ci_doctor.model.table import Table
    from ci_doctor.preload.install import ShimStatus
    from ci_doctor.preload.inventory import Inventory
    from ci_doctor.preload.result import Refused

Found = tuple[
    "ShimStatus", "Inventory | None"
]  # no inventory of what the interpreter no longer reads


@click.command("status")
@target_options
@config_option
@output_options
@legacy
def status(
    invocation: Invocation,
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    config_path: Path | None,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
) -> int:
    """Print installed shims, whether they are unchanged, and the other code of every start."""
    targets = pythons_meant(settings_of(config_path, pythons, venvs))
    claim(invocation.report_directory)
    found, refused = _look(targets)
    report = _report(invocation, found, refused)
    text_to = sys.stderr if refused else sys.stdout
    return deliver(report, as_json=as_json, directory=invocation.report_directory, text_to=text_to)


def _look(targets: "Sequence[Path | Refused]") -> "tuple[list[Found], list[Refused]]":
    from ci_doctor.preload.install import status_each
    from ci_doctor.preload.inventory import inventory
    from ci_doctor.preload.result import Refused

    found: list[Found] = []
    refused = []
    for python in targets:
        if isinstance(python, Refused):
            refused.append(python)
            continue
        try:
            current, *former = status_each(python)
            found += [(current, inventory(current.target)), *((each, None) for each in former)]
        except CiDoctorError as error:
            refused.append(Refused(python=python, error=error))
    return found, refused


def _report(
    invocation: Invocation, found: "Sequence[Found]", refused: "Sequence[Refused]"
) -> "Report":
    from ci_doctor.commands.preload_output import exit_code_of, refusal_facts, refusal_lines
    from ci_doctor.model.outcome import Failure
    from ci_doctor.model.table import text_table
    from ci_doctor.model.verdict import Verdict

    installed = sum(each.installed for each, _ in found)
    sections = [section for each, start in found for section in _sections(each, start)]
    sections += [text_table(title=str(each.python), lines=refusal_lines(each)) for each in refused]
    facts = [_facts(each, start) for each, start in found] + [
        refusal_facts(each) for each in refused
    ]
    error = refused[0].error if refused else None
    return invocation.report(
        verdict=None if error else Verdict.PASS,
        error=Failure(message=error.message, hint=error.hint) if error else None,
        exit_code=exit_code_of(refused) if refused else 0,
        summary=f"a shim is installed in {installed} of {len(found) + len(refused)} interpreters",
        findings=tuple(finding for _, start in found if start for finding in start.findings),
        tables=tuple(sections),
        facts={"shims": facts},
    )


def _sections(found: "ShimStatus", start: "Inventory | None") -> "Iterator[Table]":
    from ci_doctor.model.table import text_table

    yield text_table(
        title=str(found.target.python), lines=tuple(_lines(found, former=start is None))
    )
    if start is not None:
        yield text_table(title=f"Start-up files of {found.target.python}", lines=start.lines)


def _lines(found: "ShimStatus", *, former: bool) -> Iterator[str]:
    from ci_doctor.preload.preload_rule import format_rule

    left = "  (of an earlier minor version: this interpreter does not read it; `preload remove` clears it)"
    yield f"site directory {found.target.site_dir}{left if former else ''}"
    rules = [f"rule {format_rule(rule)}" for rule in found.rules]
    yield from rules or ["no rule"]
    for name, condition in found.files.items():
        yield f"{name}  {condition}"
    if found.outdated:
        yield "written by another version of ci-doctor; `ci-doctor preload install` with the same rules brings it up to date"
    for path in found.cut_off:
        yield f"{path.name}  left by a write that was cut off; the next install or remove clears it"


def _facts(found: "ShimStatus", start: "Inventory | None") -> dict[str, Any]:
    import msgspec

    from ci_doctor.preload.preload_rule import format_rule

    return {
        "python": str(found.target.python),
        "version": ".".join(map(str, found.target.version)),
        "site_dir": str(found.target.site_dir),
        "state": "former" if start is None else "asked",
        "installed": found.installed,
        "outdated": found.outdated,
        "rules": [format_rule(rule) for rule in found.rules],
        "files": {name: str(condition) for name, condition in found.files.items()},
        "cut_off": [str(path) for path in found.cut_off],
        "start_up": msgspec.to_builtins((start.files, start.never)) if start else None,
    }
