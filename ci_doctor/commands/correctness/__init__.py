# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness`, and the commands below it."""

from typing import Any

import click

from ci_doctor.commands.correctness.options import experiment_options
from ci_doctor.commands.group import PackageGroup
from ci_doctor.commands.options import (
    config_option,
    dry_run_option,
    pass_session,
    run_output_options,
)
from ci_doctor.session.session import Session


class _Below(PackageGroup):
    package = __name__
    names = ("replay", "compare")


@click.group(
    "correctness",
    section="correctness",
    examples={
        "ci-doctor correctness --baseline 'vllm serve MODEL --port {port}' --candidate 'vllm serve MODEL --port {port} --enable-prefix-caching' --requests prompts.jsonl": "Compare two servers without a configuration file.",
        "ci-doctor correctness --retries 3 --budget 25m --report-dir report": "The same with the servers of ci-doctor.toml, within 25 minutes.",
    },
    exits={
        0: "pass or flaky",
        1: "regression; or failed: an arm failed in every start, and nothing proves a cause outside the change",
        2: "the command line, a file or the command of a server is wrong",
        7: "flaky, with --fail-on-flaky",
        75: "infra: the cause lies outside the change",
        85: "nondeterministic",
        86: "undecided, or no evidence",
    },
    cls=_Below,
    invoke_without_command=True,
)
@experiment_options
@config_option
@dry_run_option
@run_output_options
@pass_session
@click.pass_context
def correctness(context: click.Context, session: Session, /, **options: Any) -> int:
    """Start a baseline and a candidate server, send both the same requests, and judge.

    If the first two starts give the same answers, byte for byte, the result is a pass. If not, both
    servers are started again. An exact test over the starts then separates a regression from a
    flaky environment.
    """
    if context.invoked_subcommand:
        return 0
    # Here, because the commands below need none of it.
    from ci_doctor.commands.correctness.experiment import run_experiment

    return run_experiment(session, **options)
