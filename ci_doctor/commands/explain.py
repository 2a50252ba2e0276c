# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor explain`."""

import sys
from pathlib import Path

import click

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.options import output_options
from ci_doctor.errors import UsageError
from ci_doctor.model.meanings import EXIT_CODES, VERDICTS
from ci_doctor.model.report import Section
from ci_doctor.model.rules import RULES
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.model.verdict import Verdict


@click.command("explain")
@click.argument("what")
@output_options
@click.pass_obj
def explain(invocation: Invocation, what: str, as_json: bool, report_dir: Path | None) -> int:  # noqa: ARG001
    """Explain WHAT: a finding's rule (version/shallow-clone), a verdict (flaky), a code (75)."""
    claim(invocation.report_directory)
    meaning, remedy = look_up(what)
    report = invocation.report(
        verdict=Verdict.PASS,
        exit_code=0,
        summary=f"{what}: {meaning}",
        sections=(Section(title="What to do", lines=(remedy,)),),
        facts={"meaning": meaning, "remedy": remedy},
    )
    return deliver(
        report, as_json=as_json, directory=invocation.report_directory, text_to=sys.stdout
    )


def look_up(what: str) -> tuple[str, str]:
    """The meaning of a word of ours, and what to do. Raises UsageError for any other word."""
    if what in RULES:
        return RULES[what].meaning, RULES[what].remedy
    if what in set(Verdict):
        return VERDICTS[Verdict(what)].meaning, VERDICTS[Verdict(what)].remedy
    codes = {str(int(code)): text for code, text in EXIT_CODES.items()}
    if what in codes:
        return codes[what].meaning, codes[what].remedy
    names = (*RULES, *(str(verdict) for verdict in Verdict), *codes)
    hint = did_you_mean(what, names)
    raise UsageError(
        f"nothing is called `{what}`",
        hint=hint if hint and "?" in hint else "see docs/findings.md and docs/exit-codes.md",
    )
