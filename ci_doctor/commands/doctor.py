# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor doctor`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from ci_doctor.commands.documented import (
    GENERAL,
    PATH,
    PYTHON_OPTION,
    REPORT,
    VENV_OPTION,
    VERDICT,
    command,
    config_option,
    load_configuration,
    option,
    output_options,
    pass_session,
)
from ci_doctor.errors import UsageError
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.checks.context import CheckContext
    from ci_doctor.checks.outcome import DoctorRun
    from ci_doctor.checks.settings import DoctorSettings
    from ci_doctor.config.loading import Config
    from ci_doctor.model.outcome import Outcome


def read_doctor_settings(
    session: Session,
    config_path: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
) -> "tuple[Config, DoctorSettings]":
    """The configuration, and `[doctor]` of it with paths relative to the working directory.

    The session gets the repository's own exit codes. Raises ConfigError.
    """
    from ci_doctor.checks.settings import DoctorSettings, require_readable, require_runnable
    from ci_doctor.config.decoding import decode_section, path_in

    loaded = load_configuration(session, config_path)
    settings, origins = decode_section(
        loaded, "doctor", DoctorSettings, environ=environ, flags=flags
    )

    def place(*keys: str | int) -> str:
        origin = origins["checks"]
        if origin.startswith("environment "):
            return origin
        return loaded.where("doctor", "checks", *keys)

    require_runnable(settings.checks, place)
    require_readable(settings, origins.__getitem__)

    def placed(name: str, words: list[str]) -> list[str]:
        return [str(path_in(loaded, origins[name], word)) for word in words]

    since_green = settings.since_green or None
    if since_green is not None:
        since_green = str(path_in(loaded, origins["since_green"], since_green))
    settings = replace(
        settings,
        since_green=since_green,
        venvs=placed("venvs", settings.venvs),
        caches=placed("caches", settings.caches),
    )
    return loaded, settings


def context_of(
    loaded: "Config", settings: "DoctorSettings", environ: Mapping[str, str]
) -> "CheckContext":
    """What the checks look at. Raises ConfigError, and UsageError for a missing interpreter."""
    from ci_doctor.checks.context import CheckContext
    from ci_doctor.machine.interpreters import choose_targets
    from ci_doctor.services.spec import service_specs

    cwd = Path.cwd()
    return CheckContext(
        environ=environ,
        cwd=cwd,
        settings=settings,
        services=service_specs(loaded),
        targets=choose_targets(settings.pythons, settings.venvs, [cwd], environ, broken=True),
    )


def with_changes(
    outcome: "Outcome", session: Session, context: "CheckContext", path: Path
) -> "Outcome":
    """`outcome` with a table of what changed since the green run at `path`, or why that is unknown."""
    from ci_doctor.drift.green import latest_green, since_green
    from ci_doctor.drift.reading import SnapshotRequest, take_snapshot
    from ci_doctor.model.facts.preparing import DoctorFacts

    request = SnapshotRequest(
        pythons=[target.python for target in context.targets],
        environ=dict(os.environ),
        cwd=context.cwd,
        about=session.about,
        redactor=session.redactor,
    )
    now = take_snapshot(request).snapshot
    changes = since_green(latest_green(path, now.about.step), now)
    facts = outcome.facts
    if isinstance(facts, DoctorFacts):
        facts = replace(facts, since_green=changes.facts)
    return replace(outcome, tables=(*outcome.tables, changes.table), facts=facts)


_CHECKED = "What is checked"


@command(
    "doctor",
    section="doctor",
    examples={
        "ci-doctor doctor --for vllm --strict": "Before a job with vLLM: end if something that it needs is missing or unknown.",
        "ci-doctor doctor gpu machine --all": "Print every check of two areas.",
    },
    exits={
        0: "every check is ok, or warns",
        1: "an error of the repository: every agent would fail",
        75: "an error of the environment: another agent may be fit",
        86: "--strict, and a check that --for needs is unknown; nothing is known at all; --gpu, and no GPU is there",
    },
)
@click.argument(
    "checks",
    nargs=-1,
    metavar="[CHECK]...",
)
@option(
    "--for",
    "workload",
    group=_CHECKED,
    type=click.Choice(["vllm", "lmcache", "sglang", "correctness"]),
    help="What the job is going to run.",
)
@option(
    "--strict",
    group=VERDICT,
    is_flag=True,
    default=None,
    help="End with 86 (void) if a check that --for needs is unknown.",
)
@option(
    "--skip",
    group=_CHECKED,
    multiple=True,
    metavar="CHECK",
    help="Leave this check out. Repeatable.",
)
@option(
    "--imports",
    "requested",
    group=_CHECKED,
    flag_value="imports",
    multiple=True,
    help="Start the entry points of the job, too. This takes up to 60 s.",
)
@option(
    "--gpu",
    "requested",
    group=_CHECKED,
    flag_value="gpu",
    multiple=True,
    help="Measure the GPUs, too. This takes minutes.",
)
@option(
    "--since-green",
    group=_CHECKED,
    metavar="PATH",
    type=PATH,
    help="Name what changed since this green run: a snapshot, a report directory, or a directory "
    "of many.",
)
@option(
    "--fix",
    "fixes",
    group=GENERAL,
    is_flag=True,
    help="Repair what ci-doctor itself made, if that is safe; then check again.",
)
@option(
    "--dry-run", group=GENERAL, is_flag=True, help="With --fix: print the changes, and make none."
)
@option("--all", "show_all", group=REPORT, is_flag=True, help="Print the checks that are ok, too.")
@option("--list", "lists", group=GENERAL, is_flag=True, help="List the checks; run none.")
@VENV_OPTION
@PYTHON_OPTION
@config_option
@output_options
@pass_session
def doctor(
    session: Session,
    /,
    *,
    checks: tuple[str, ...],
    requested: tuple[str, ...],
    fixes: bool,
    dry_run: bool,
    show_all: bool,
    lists: bool,
    config_path: Path | None,
    **flags: Any,
) -> int:
    """Check whether this agent is fit for the job.

    CHECK is the id of a check, an area such as gpu, or a pattern. Without one, all are looked at.
    """
    session.claim()
    if dry_run and not fixes:
        raise UsageError("--dry-run goes with --fix", hint="ci-doctor doctor --fix --dry-run")

    from ci_doctor.checks.all_checks import all_checks, chosen, requested_by
    from ci_doctor.checks.outcome import outcome_of
    from ci_doctor.checks.running import DoctorRequest, run
    from ci_doctor.commands.teller import late_teller

    loaded, settings = read_doctor_settings(session, config_path, os.environ, flags)
    options = {*requested, *requested_by(checks)}
    selected = chosen(all_checks(settings, sorted(options)), checks, settings.skip)
    if lists:
        from ci_doctor.checks.outcome import listing_outcome

        return session.finish(listing_outcome(selected), on_stdout=True)
    context = context_of(loaded, settings, os.environ)
    request = DoctorRequest(checks=selected, areas=checks, strict=settings.strict)
    with late_teller() as tell:
        ran = run(request, context, tell)
    if fixes:
        ran = _fixed(ran, context, dry_run=dry_run)
    outcome = outcome_of(ran, show_all=show_all)
    if settings.since_green is not None:
        outcome = with_changes(outcome, session, context, Path(settings.since_green))
    return session.finish(outcome, on_stdout=True)


def _fixed(ran: "DoctorRun", context: "CheckContext", *, dry_run: bool) -> "DoctorRun":
    """`ran` after the changes of `--fix`, each of them printed before it is made."""
    from ci_doctor.checks.running import fix, planned

    if dry_run:
        return planned(ran)
    return fix(ran, context, lambda words: say(f"ci-doctor: {words}\n"))
