# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload status` and `ci-doctor preload remove`; `setup-env --preload` installs."""

import os
import sys
from pathlib import Path

import click

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.group import Group
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.options import dry_run_option, output_options
from ci_doctor.commands.shims import describe
from ci_doctor.environment.targets import choose_targets
from ci_doctor.errors import UsageError
from ci_doctor.model.report import Section
from ci_doctor.model.verdict import Verdict
from ci_doctor.preload.install import ShimStatus, remove_shims, status
from ci_doctor.preload.rules import format_rule


@click.group("preload", cls=Group)
def preload() -> None:
    """Show or remove the preload shims of an interpreter."""


def _pythons(pythons: tuple[str, ...], venvs: tuple[str, ...]) -> list[Path]:
    targets = choose_targets(pythons, venvs, [Path.cwd()], os.environ)
    if not targets:
        raise UsageError("no interpreter found", hint="name one: --venv DIR or --python PY")
    return [target.python for target in targets]


_python = click.option("--python", "pythons", multiple=True, metavar="PY", help="Target interpreter. Repeatable.")
_venv = click.option("--venv", "venvs", multiple=True, metavar="DIR", help="Target virtual environment. Repeatable.")


@preload.command("status")
@_python
@_venv
@output_options
@click.pass_obj
def status_(
    invocation: Invocation,
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
) -> int:
    """What is installed where, and whether it is as it was written."""
    claim(invocation.report_directory)
    found = [status(python) for python in _pythons(pythons, venvs)]
    installed = sum(each.installed for each in found)
    report = invocation.report(
        verdict=Verdict.PASS,
        exit_code=0,
        summary=f"a shim is installed in {installed} of {len(found)} interpreters",
        sections=tuple(Section(title=str(each.target.python), lines=_lines(each)) for each in found),
        facts={"shims": [{"site_dir": str(each.target.site_dir), "installed": each.installed} for each in found]},
    )
    return deliver(report, as_json=as_json, directory=invocation.report_directory, text_to=sys.stdout)


def _lines(found: ShimStatus) -> tuple[str, ...]:
    rules = [f"rule {format_rule(rule)}" for rule in found.rules]
    files = [f"{name}  {condition}" for name, condition in found.files.items()]
    return (f"site directory {found.target.site_dir}", *(rules or ["no rule"]), *files)


@preload.command("remove")
@_python
@_venv
@dry_run_option
@output_options
@click.pass_obj
def remove(
    invocation: Invocation,
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - as above
) -> int:
    """Take the shim out again; the site directory is left as it was before."""
    claim(invocation.report_directory)
    shims = describe(remove_shims(_pythons(pythons, venvs), dry_run=dry_run))
    done = "would remove" if dry_run else "removed"
    report = invocation.report(
        verdict=Verdict.PASS,
        exit_code=0,
        summary=f"{done} {len(shims.changed)} files" if shims.changed else "nothing to remove",
        findings=shims.findings,
        sections=(Section(title="Preload", lines=shims.lines),),
        facts={"changed": list(shims.changed)},
    )
    return deliver(report, as_json=as_json, directory=invocation.report_directory, text_to=sys.stdout)
