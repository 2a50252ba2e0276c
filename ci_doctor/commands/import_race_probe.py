# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor import-race probe`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import output_options
from ci_doctor.errors import UsageError
from ci_doctor.model.table import text_table

if TYPE_CHECKING:
    from ci_doctor.imports.probe import Probed
    from ci_doctor.model.finding import Finding
    from ci_doctor.model.report import Report


@click.command("probe")
@click.option(
    "--python",
    "pythons",
    metavar="PY",
    help="The interpreter. [default: $VIRTUAL_ENV, .venv, python3 on PATH]",
)
@output_options
@click.argument("target", metavar="MODULE[:ATTR]")
@legacy
def probe(
    invocation: Invocation,
    /,
    *,
    target: str,
    pythons: str | None,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
) -> int:
    """Check whether importing MODULE (or ATTR from it) fails while another thread imports MODULE.

    Exit codes: 0 not exposed, 1 exposed, 86 MODULE cannot be imported at all.
    """
    from ci_doctor.environment.targets import choose_targets
    from ci_doctor.imports import probe as asking

    claim(invocation.report_directory)
    module, attribute = asking.parse_target(target)
    found = choose_targets([pythons] if pythons else [], [], [Path.cwd()], os.environ)
    if not found:
        raise UsageError("no interpreter found", hint="name one: --python PY")
    probed = asking.probe(found[0].python, module, attribute, environ=os.environ)
    return deliver(
        describe(probed, invocation),
        as_json=as_json or invocation.wants_json,  # it may stand before `probe`
        directory=invocation.report_directory,
        text_to=sys.stdout,
    )


def describe(probed: "Probed", invocation: Invocation) -> "Report":
    """What the answer means."""
    from ci_doctor.model.verdict import Verdict, exit_code

    verdicts = {True: Verdict.REGRESSION, False: Verdict.PASS, None: Verdict.VOID}
    verdict = verdicts[probed.exposed]
    lines = [
        f"interpreter {probed.python}"
        + (" (immune: it looks again after waiting)" if probed.immune else "")
    ]
    if probed.replaced:
        lines.append(f"replaced themselves on the way: {', '.join(probed.replaced)}")
    return invocation.report(
        verdict=verdict,
        exit_code=int(exit_code(verdict)),
        summary=_summary(probed),
        findings=_findings(probed),
        tables=(text_table(title="Probe", lines=tuple(lines)),),
        facts=_facts(probed),
    )


def _facts(probed: "Probed") -> dict[str, object]:
    return {
        "module": probed.module,
        "attribute": probed.attribute or None,
        "python": str(probed.python),
        "exposed": probed.exposed,
        "error": probed.error or None,
        "loaded_before": probed.loaded_before,
        "replaced": list(probed.replaced),
        "immune": probed.immune,
        "rule": _rule(probed),
    }


def _name(probed: "Probed") -> str:
    return f"{probed.module}:{probed.attribute}" if probed.attribute else probed.module


def _rule(probed: "Probed") -> str:
    return f"TRIGGER={_name(probed)}"


def _summary(probed: "Probed") -> str:
    name = _name(probed)
    if probed.exposed is None:
        return f"{name} cannot be imported, so nothing is known: {probed.error}"
    if probed.exposed:
        return f"{name} is exposed: its import is lost while another thread imports {probed.module}"
    return f"{name} is not exposed: {_why_not(probed)}"


def _why_not(probed: "Probed") -> str:
    if probed.loaded_before:
        return f"{probed.module} is loaded at every start of this interpreter"
    if probed.module not in probed.replaced:
        return f"{probed.module} does not replace itself in sys.modules"
    if probed.immune:
        return f"{probed.module} replaces itself, and this interpreter looks again after waiting"
    return f"{probed.module} replaces itself, and {probed.attribute or 'it'} is the same in what was there before"


def _findings(probed: "Probed") -> "tuple[Finding, ...]":
    from ci_doctor.model.finding import Evidence, Finding, Severity

    if probed.exposed:
        said = probed.error or "the main thread was given another object than the module that stays"
        return (
            Finding(
                rule="import-race/self-replacing",
                severity=Severity.ERROR,
                summary=f"{probed.module} replaces itself in sys.modules, and who waits for its import gets what was there before",
                evidence=(Evidence(excerpt=said),),
                remedy=f"preload it, with the module that starts the thread as TRIGGER: "
                f"`ci-doctor run --preload '{_rule(probed)}' -- CMD`",
            ),
        )
    if probed.exposed is False and probed.immune and probed.replaced:
        return (
            Finding(
                rule="import-race/interpreter-immune",
                severity=Severity.NOTE,
                summary=f"{', '.join(probed.replaced)} would be exposed in an interpreter without the fix (gh-143650)",
            ),
        )
    return ()
