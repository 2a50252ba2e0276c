# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload verify`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import config_option, output_options
from ci_doctor.commands.preload_options import pythons_meant, settings_of, target_options
from ci_doctor.commands.telling.line import LineKind
from ci_doctor.commands.telling.steps import StepSource
from ci_doctor.commands.telling.teller import Teller
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.table import text_table

if TYPE_CHECKING:
    from ci_doctor.model.outcome import Case
    from ci_doctor.model.report import Report
    from ci_doctor.preload.checks import Check
    from ci_doctor.preload.install import Refused


@click.command("verify")
@target_options
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Runs of each race, with and without the shim.",
)
@config_option
@output_options
@legacy
def verify(
    invocation: Invocation,
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    runs: int,
    config_path: Path | None,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
) -> int:
    """Prove that the shim is armed and cheap, and wins a race lost without it.

    A stub stands in for the trigger, so neither a GPU nor the trigger's package is needed. Exit
    codes: 0 proven, or no longer needed; 1 the shim fails; 86 nothing is proven.
    """
    targets = pythons_meant(settings_of(config_path, pythons, venvs))
    claim(invocation.report_directory)
    checks, refused = _verify(targets, runs)
    report = _report(invocation, checks, refused)
    text_to = sys.stderr if refused else sys.stdout
    return deliver(report, as_json=as_json, directory=invocation.report_directory, text_to=text_to)


def _verify(
    targets: "Sequence[Path | Refused]", runs: int
) -> "tuple[dict[str, tuple[Check, ...]], list[Refused]]":
    from ci_doctor.preload.install import Refused
    from ci_doctor.preload.target import inspect_interpreter
    from ci_doctor.preload.verify import verify as verify_shim

    checks: dict[str, tuple[Check, ...]] = {}
    refused = []
    with Teller(StepSource(LineKind.STATUS)) as tell:
        for python in targets:
            if isinstance(python, Refused):
                refused.append(python)
                continue
            try:
                checks[str(python)] = verify_shim(inspect_interpreter(python), runs=runs, tell=tell)
            except CiDoctorError as error:
                refused.append(Refused(python=python, error=error))
    return checks, refused


def _report(
    invocation: Invocation, checks: "Mapping[str, Sequence[Check]]", refused: "Sequence[Refused]"
) -> "Report":
    from ci_doctor.commands.preload_output import exit_code_of, refusal_facts, refusal_lines
    from ci_doctor.model.outcome import Failure
    from ci_doctor.model.verdict import Verdict, exit_code
    from ci_doctor.preload.checks import findings, verdict

    every = [check for each in checks.values() for check in each]
    reached = verdict(every)
    # A shim that was seen to fail is the worse news.
    code = (
        exit_code(reached)
        if not refused or reached is Verdict.REGRESSION
        else exit_code_of(refused)
    )
    sections = [text_table(title=python, lines=_lines(each)) for python, each in checks.items()]
    sections += [text_table(title=str(each.python), lines=refusal_lines(each)) for each in refused]
    error = refused[0].error if refused else None
    return invocation.report(
        verdict=None if error else reached,
        error=Failure(message=error.message, hint=error.hint) if error else None,
        exit_code=code,
        summary=_summary(every) if every else "no interpreter could be asked",
        findings=findings(every),
        tables=tuple(sections),
        facts={
            "checks": [_fact(python, check) for python, each in checks.items() for check in each],
            "refused": [refusal_facts(each) for each in refused],
        },
        cases=tuple(_case(python, check) for python, each in checks.items() for check in each),
    )


def _summary(checks: Sequence["Check"]) -> str:
    """What the checks say together, the worst first."""
    number = {
        word: sum(check.outcome == word for check in checks)
        for word in ("failed", "void", "not-needed")
    }
    if number["failed"]:
        return f"{number['failed']} of {len(checks)} checks of the shim failed"
    if number["void"]:
        return f"{number['void']} of {len(checks)} checks of the shim prove nothing"
    if number["not-needed"]:
        needed = any(
            check.name.startswith("race") and check.outcome == "passed" for check in checks
        )
        return f"the shim works, and {'part of it is' if needed else 'it is'} no longer needed"
    return "the race is lost without the shim, and won with it"


def _lines(checks: Sequence["Check"]) -> tuple[str, ...]:
    lines = []
    for check in checks:
        lines.append(f"{check.outcome:<10}  {check.sentence}")
        if check.outcome == "passed" and check.evidence:
            lines.append(f"{'':<10}  without it: {check.evidence}")
    return tuple(lines)


def _fact(python: str, check: "Check") -> dict[str, Any]:
    return {
        "python": python,
        "name": check.name,
        "outcome": check.outcome.value,
        "sentence": check.sentence,
        "evidence": check.evidence,
    }


def _case(python: str, check: "Check") -> "Case":
    from ci_doctor.model.outcome import Case, CaseOutcome

    outcomes = {"failed": CaseOutcome.FAILED, "void": CaseOutcome.ERROR}
    passed = check.outcome == "passed"
    return Case(
        group=f"preload verify {python}",
        name=check.name,
        outcome=outcomes.get(check.outcome, CaseOutcome.PASSED),
        message=None if passed else check.sentence,
        detail=None if passed else check.evidence or None,
    )
