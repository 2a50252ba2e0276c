# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor lint`."""

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands.documented import (
    GENERAL,
    PATH,
    REPORT,
    command,
    config_option,
    option,
    output_options,
    pass_session,
)
from ci_doctor.errors import UsageError
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.lint.lint_run import LintRequest, LintRun
    from ci_doctor.model.outcome import Outcome


def lint_request(
    names: tuple[str, ...],
    config_path: Path | None,
    environ: Mapping[str, str],
    *,
    since: str | None,
    baseline: str | None,
) -> "LintRequest":
    """What the command line and the configuration ask for. Raises UsageError, ConfigError."""
    from ci_doctor.config.decoding import decode_section, path_in, place_of
    from ci_doctor.config.loading import load_config
    from ci_doctor.lint.lint_run import LintRequest, rule_ids
    from ci_doctor.lint.run import readers_of
    from ci_doctor.lint.selection import LintSettings, check_rule_names, read_baseline

    loaded = load_config(config_path, Path.cwd())
    settings, origins = decode_section(
        loaded, "lint", LintSettings, environ=environ, flags={"baseline": baseline}
    )
    check_rule_names(settings, rule_ids, partial(place_of, loaded, "lint", origins))
    file = None
    if settings.baseline is not None:
        file = path_in(loaded, origins["baseline"], settings.baseline)
    return LintRequest(
        names=names,
        cwd=Path.cwd(),
        rule_ids=rule_ids,
        readers=readers_of,
        since=since,
        settings=settings,
        baseline=None if file is None else read_baseline(file),
        baseline_file=None if file is None else str(file),
    )


@command(
    "lint",
    section="lint",
    examples={
        "ci-doctor lint": "Read the whole repository.",
        "ci-doctor lint ci/run.sh .buildkite --since main": "Report only what changed since main.",
    },
    exits={
        0: "no finding of severity error",
        1: "a finding of severity error",
        86: "there was nothing to read",
    },
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=PATH)
@option(
    "--since",
    group="What is reported",
    metavar="REF",
    help="Report only what concerns lines changed since this commit or branch.",
)
@option(
    "--fix",
    "fixes",
    group=GENERAL,
    is_flag=True,
    help="Mend what is safe, shown as a diff, and look again.",
)
@option(
    "--dry-run", group=GENERAL, is_flag=True, help="With --fix: print the diff; change nothing."
)
@option(
    "--baseline",
    group="What is reported",
    metavar="FILE",
    type=PATH,
    help="Leave out the violations that this file lists. [default: that of [lint]]",
)
@option(
    "--write-baseline",
    group="What is reported",
    metavar="FILE",
    type=PATH,
    help="List all present violations in this file; report none.",
)
@option("--sarif", group=REPORT, is_flag=True, help="Print SARIF 2.1.0 on stdout.")
@option(
    "--format",
    "form",
    group=REPORT,
    type=click.Choice(["text", "github"]),
    default="text",
    help="github: print annotations, `::error file=…`. [default: text, and annotations too on GitHub]",
)
@config_option
@output_options
@pass_session
def lint(
    session: Session,
    /,
    *,
    paths: tuple[str, ...],
    since: str | None,
    fixes: bool,
    dry_run: bool,
    baseline: str | None,
    write_baseline: str | None,
    sarif: bool,
    form: str,
    config_path: Path | None,
) -> int:
    """Name what in scripts, pipelines and gates will break a job, without running any.

    PATH is a file or a directory; without one it is the whole repository. Run actionlint for the
    syntax of GitHub workflows, and ShellCheck for that of scripts.
    """
    if dry_run and not fixes:
        raise UsageError("--dry-run goes with --fix", hint="ci-doctor lint --fix --dry-run")
    for name, is_given in {"--fix": fixes, "--since": since is not None}.items():
        if write_baseline is not None and is_given:
            raise UsageError(
                f"--write-baseline and {name} exclude each other",
                hint="a baseline lists all that is wrong at present",
            )
    _choose_form(session, sarif=sarif, form=form)
    session.claim()

    request = lint_request(paths, config_path, os.environ, since=since, baseline=baseline)
    if write_baseline is not None:
        return session.finish(_written(request, write_baseline), on_stdout=True)
    ran = _run(request)
    if fixes:
        return _fixed(session, request, ran, dry_run=dry_run)
    from ci_doctor.lint.outcome import outcome_of

    return session.finish(outcome_of(ran, request), on_stdout=True)


def _choose_form(session: Session, *, sarif: bool, form: str) -> None:
    """Raises UsageError for more than one form."""
    is_github = form == "github"
    if sum((sarif, is_github, session.as_json)) > 1:
        raise UsageError(
            "--json, --sarif and --format github exclude each other", hint="give one of them"
        )
    if sarif:
        session.form = "sarif"
    elif is_github:
        session.form = "github"


def _run(request: "LintRequest") -> "LintRun":
    from ci_doctor.commands.teller import late_teller
    from ci_doctor.lint.run import run

    with late_teller() as tell:
        return run(request, tell)


def _written(request: "LintRequest", file: str) -> "Outcome":
    """What comes of writing the baseline of all present violations. Raises UsageError."""
    from msgspec.structs import replace

    from ci_doctor.lint.outcome import baseline_outcome, outcome_of
    from ci_doctor.lint.selection import baseline_of, write_baseline

    ran = _run(replace(request, baseline=None, baseline_file=None))
    # A baseline of nothing would be taken for a clean repository.
    if not ran.files:
        return outcome_of(ran, request)
    baseline = baseline_of(ran.selection.violations)
    write_baseline(Path(file), baseline)
    return baseline_outcome(baseline, file)


def _fixed(session: Session, request: "LintRequest", ran: "LintRun", *, dry_run: bool) -> int:
    """The report after the changes of `--fix`, which are printed before they are made."""
    from ci_doctor.lint.mend import fix_facts, mended, planned
    from ci_doctor.lint.outcome import dry_run_outcome, outcome_of
    from ci_doctor.render.formatting import printable

    plan = planned(ran, request)
    if dry_run:
        outcome = dry_run_outcome(ran, request, fix_facts(plan, {}, is_dry_run=True))
        # The diff alone, so that `git apply` takes it.
        if plan.diff:
            say(f"ci-doctor: {outcome.summary}\n")
        is_shown = sys.stdout is not None and sys.stdout.isatty()
        diff = printable(plan.diff) if is_shown else plan.diff
        return session.finish(outcome, on_stdout=True, text=diff or None)

    def show(diff: str) -> None:
        say(printable(session.redactor.text(diff)))

    fix = mended(ran, plan, show)
    return session.finish(outcome_of(_run(request), request, fix), on_stdout=True)
