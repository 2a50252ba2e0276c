# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness compare`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import config_option, output_options
from ci_doctor.model.verdict import Verdict, exit_code

if TYPE_CHECKING:
    from ci_doctor.correctness.collected.sources import Source
    from ci_doctor.model.report import Report


@click.command("compare")
@click.argument("baseline", metavar="A")
@click.argument("candidate", metavar="B")
@click.option(
    "--format",
    "form",
    metavar="NAME",
    help="ours, lmcache, responses, batch or rows. [default: by content]",
)
@click.option(
    "--alpha",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Accepted probability of a false regression.",
)
@click.option(
    "--fail-on-flaky", is_flag=True, help="Exit with 7 instead of 0 if the verdict is flaky."
)
@config_option
@output_options
@legacy
def compare(
    invocation: Invocation,
    /,
    *,
    baseline: str,
    candidate: str,
    form: str | None,
    alpha: float,
    fail_on_flaky: bool,
    config_path: Path | None,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
) -> int:
    """Compare samples collected elsewhere: A is the baseline's, B the candidate's.

    A and B are files, or directories with one *.jsonl or *.txt per start. Exit codes: 0 pass or
    flaky, 1 regression, 85 nondeterministic, 86 undecided, for example if one start a side differs.
    """
    from ci_doctor.config.exit_codes import read_exit_codes
    from ci_doctor.config.loading import load_config

    directory = invocation.report_directory
    claim(directory)
    codes, _ = read_exit_codes(load_config(config_path, Path.cwd()), os.environ)
    report = _report(
        invocation,
        (baseline, candidate),
        form=form,
        alpha=alpha,
        fail_on_flaky=fail_on_flaky,
        codes=codes,
        kept=as_json or directory is not None,
    )
    return deliver(report, as_json=as_json, directory=directory, text_to=sys.stdout)


def _report(
    invocation: Invocation,
    paths: tuple[str, str],
    *,
    form: str | None,
    alpha: float,
    fail_on_flaky: bool,
    codes: dict[str, int],
    kept: bool,
) -> "Report":
    """What the two sides say of each other; `kept` asks for what only files and programs read."""
    from ci_doctor.correctness.collected import describe
    from ci_doctor.correctness.collected.divergences import partings
    from ci_doctor.correctness.collected.judge import judge
    from ci_doctor.correctness.collected.settle import settle
    from ci_doctor.correctness.collected.sources import NoEvidenceError
    from ci_doctor.correctness.collected.survey import survey
    from ci_doctor.correctness.settings import Rules

    def code(verdict: Verdict) -> int:
        own = exit_code(verdict, fail_on_flaky=fail_on_flaky)
        return codes.get(verdict.value, own) if own else own

    try:
        collected = settle(survey(*_sides(paths, form)))
    except NoEvidenceError as error:
        return invocation.report(
            verdict=Verdict.VOID,
            exit_code=code(Verdict.VOID),
            summary=str(error),
            findings=_void(str(error)),
        )
    decision = judge(collected, Rules(alpha=alpha))
    found = partings(collected, decision)
    return invocation.report(
        verdict=decision.verdict,
        exit_code=code(decision.verdict),
        summary=decision.reason,
        findings=tuple(describe.findings(collected, decision, found)),
        sections=describe.sections(collected, decision),
        facts=describe.facts(collected, decision, found) if kept else {},
        cases=describe.cases(collected, decision) if kept else (),
    )


def _sides(paths: tuple[str, str], form: str | None) -> "tuple[list[Source], list[Source]]":
    """The files of both sides. Raises UsageError where they cannot be compared, NoEvidenceError where one is empty."""
    from ci_doctor.correctness.collected.formats import named
    from ci_doctor.correctness.collected.sources import check, find, sources
    from ci_doctor.correctness.settings import Arm

    known = named(form) if form else None
    for path in paths:
        find(path)  # what is missing is an error of usage, whatever the other side holds
    baseline, candidate = (sources(arm, path, known) for arm, path in zip(Arm, paths, strict=True))
    check(baseline, candidate)
    return baseline, candidate


def _void(reason: str) -> tuple[object, ...]:
    from ci_doctor.correctness.collected.describe import REMEDIES
    from ci_doctor.model.finding import Finding, Severity

    return (
        Finding(
            rule="correctness/void",
            severity=Severity.WARNING,
            summary=reason,
            remedy=REMEDIES[Verdict.VOID],
        ),
    )
