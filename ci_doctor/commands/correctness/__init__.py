# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness`, and the commands below it."""

from typing import Any

import click

from ci_doctor.commands.correctness.options import experiment_options
from ci_doctor.commands.group import PackageGroup
from ci_doctor.commands.options import (
    config_option,
    dry_run_option,
    output_options,
    pass_session,
)
from ci_doctor.session.session import Session


class _Below(PackageGroup):
    package = __name__
    names = ("replay", "compare", "archive")


@click.group("correctness", cls=_Below, invoke_without_command=True)
@experiment_options
@config_option
@dry_run_option
@output_options
@pass_session
@click.pass_context
def correctness(context: click.Context, session: Session, /, **options: Any) -> int:
    """Start a baseline and a candidate server, send both the same requests, judge the difference.

    If the first two starts give the same answers, byte for byte, the result is a pass. If not, both
    servers are started again. An exact test over the starts then separates a regression from a
    flaky environment. Exit codes: 0 pass or flaky, 1 regression, 75 infra, 85 nondeterministic, 86
    undecided.
    """
    if context.invoked_subcommand:
        return 0
    # Here, because the commands below need none of it.
    from ci_doctor.commands.correctness.experiment import run_experiment

    return run_experiment(session, **options)
