# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor doctor`."""

import os
from pathlib import Path
from typing import Any

import click

from ci_doctor.commands.options import (
    PYTHON_OPTION,
    VENV_OPTION,
    config_option,
    output_options,
    pass_session,
)
from ci_doctor.session.session import Session


@click.command("doctor")
@click.argument("checks", nargs=-1, metavar="[CHECK]...")
@click.option(
    "--for",
    "workload",
    type=click.Choice(["vllm", "lmcache", "sglang", "correctness"]),
    help="What the job is going to run.",
)
@click.option(
    "--strict",
    is_flag=True,
    default=None,
    help="End void (86) if a check that --for needs is unknown.",
)
@click.option("--skip", multiple=True, metavar="CHECK", help="Leave this check out. Repeatable.")
@click.option(
    "--imports",
    "requested",
    flag_value="imports",
    multiple=True,
    help="Start the entry points of the job, too: up to 60 s.",
)
@click.option(
    "--gpu", "requested", flag_value="gpu", multiple=True, help="Measure the GPUs, too: minutes."
)
@click.option("--all", "show_all", is_flag=True, help="Print the checks that are ok, too.")
@click.option("--list", "lists", is_flag=True, help="List the checks; run none.")
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
    show_all: bool,
    lists: bool,
    config_path: Path | None,
    **flags: Any,
) -> int:
    """Check whether this agent is fit for the job.

    CHECK is the id of a check, an area such as gpu, or a pattern. Exit codes: 75 for an error of the
    environment, 1 for one of the repository, 86 if --strict and a needed check is unknown.
    """
    session.claim()

    from ci_doctor.checks.all_checks import all_checks, chosen
    from ci_doctor.checks.outcome import outcome_of
    from ci_doctor.checks.run import DoctorRequest, run
    from ci_doctor.commands.doctor_settings import context_of, read_doctor_settings
    from ci_doctor.commands.telling.late import LateTeller

    loaded, settings = read_doctor_settings(session, config_path, os.environ, flags)
    selected = chosen(all_checks(settings, requested), checks, settings.skip)
    if lists:
        from ci_doctor.checks.listing import listing_outcome

        return session.finish(listing_outcome(selected), on_stdout=True)
    context = context_of(loaded, settings, os.environ)
    request = DoctorRequest(checks=selected, strict=settings.strict)
    with LateTeller() as tell:
        ran = run(request, context, tell)
    return session.finish(outcome_of(ran, show_all=show_all), on_stdout=True)
