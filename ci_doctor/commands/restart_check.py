# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor restart-check`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import config_option, dry_run_option, output_options
from ci_doctor.commands.restart_output import (
    described,
    hand_over,
    take_secrets_out,
    would_do,
)
from ci_doctor.commands.telling.restart import RestartSource
from ci_doctor.commands.telling.teller import Teller
from ci_doctor.config.decoding import decode_section
from ci_doctor.config.exit_codes import read_exit_codes
from ci_doctor.config.loading import load_config
from ci_doctor.restart.experiment import run
from ci_doctor.restart.notes import Progress
from ci_doctor.restart.planning import make_plan
from ci_doctor.restart.settings import Plan, RestartSettings
from ci_doctor.restart.starts import Starts
from ci_doctor.session.warm_up import WarmUp
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.redaction import Redactor

DEFAULT_DIRECTORY = Path("ci-doctor-report")


@click.command("restart-check")
@click.option("--kill", metavar="NAME", help="The service to kill. [default: the answering one]")
@click.option("--signal", metavar="NAME", help="The signal for the kill. [default: SIGKILL]")
@click.option(
    "--at", type=float, metavar="F", help="Kill after this fraction of the load. [default: 0.5]"
)
@click.option("--outage", metavar="S", help="Time from its end to its relaunch. [default: 5s]")
@click.option("--requests", metavar="FILE", help="JSONL, one request a line.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="Requests in flight at once. [default: 40]"
)
@click.option(
    "--request-timeout", metavar="S", help="A longer request counts as hung. [default: 30s]"
)
@click.option(
    "--recovery-timeout",
    metavar="S",
    help="Time to recover after the relaunch. [default: 120s]",
)
@click.option(
    "--throughput",
    type=float,
    metavar="R",
    help="Lowest accepted ratio of after to before; 0: any. [default: 0.8]",
)
@click.option(
    "--same-outputs/--no-same-outputs",
    default=None,
    help="Require the baseline's answers, byte for byte.",
)
@click.option(
    "--budget", metavar="S", help="Wall clock for the whole run, report included. [default: 25m]"
)
@config_option
@dry_run_option
@output_options
@legacy
def restart_check(
    invocation: Invocation,
    /,
    *,
    dry_run: bool,
    as_json: bool,
    config_path: Path | None,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
    **flags: Any,
) -> int:
    """Kill a service under load, start it again, and check its promises to clients.

    No request may hang. The port, the processes and the memory must be released. The service must
    be ready again in time, and answer as fast as before. Exit codes: 0 pass, 1 a promise is broken,
    75 infra, 86 nothing is proven.
    """
    directory = invocation.report_directory or DEFAULT_DIRECTORY
    if dry_run:
        job = _prepare(invocation, directory, config_path, flags)
        return deliver(
            would_do(job.plan, invocation), as_json=as_json, directory=None, text_to=sys.stdout
        )
    # Before anything else, so that no report of an earlier attempt outlives this one, however it ends.
    claim(directory)
    job = _prepare(invocation, directory, config_path, flags)
    return _perform(job, invocation, directory, as_json=as_json)


class Job(Struct, frozen=True, kw_only=True):
    """Everything that is known before the first start."""

    plan: Plan
    codes: Mapping[str, int]
    redactor: Redactor


def _prepare(
    invocation: Invocation, directory: Path, config_path: Path | None, flags: Mapping[str, Any]
) -> Job:
    """Find everything that is wrong before anything is started. Raises UsageError."""
    loaded = load_config(config_path, Path.cwd())
    settings, origins = decode_section(
        loaded, "restart-check", RestartSettings, environ=os.environ, flags=flags
    )
    codes, _ = read_exit_codes(loaded, os.environ)
    plan = make_plan(
        settings,
        origins,
        loaded,
        started=invocation.started,
        directory=directory.absolute(),
        environment=dict(os.environ),
    )
    secrets = (plan.specs[name].env for name in plan.order)
    return Job(plan=plan, codes=codes, redactor=Redactor.from_environment(os.environ, *secrets))


def _load_report() -> None:
    """Import what the report of a check needs."""
    import ci_doctor.restart.conclude
    import ci_doctor.restart.describe
    import ci_doctor.restart.judge  # noqa: F401


def _perform(job: Job, invocation: Invocation, directory: Path, *, as_json: bool) -> int:
    """Check, and deliver the report. Once everything has stopped, no signal takes the report away."""
    interruption, starts, warm_up = Interruption(), Starts(), WarmUp(_load_report)
    with interruption.handling():
        with Teller(RestartSource(), job.redactor) as tell:

            def on_progress(progress: Progress) -> None:
                if progress.event is not None:
                    starts.add(progress.event)
                    warm_up.begin()
                tell(progress)

            try:
                seen = run(job.plan, interruption, on_progress)
            finally:
                for warning in take_secrets_out(starts.runs, job.redactor):
                    tell.warn(warning)
        warm_up.wait()
        report = described(job.plan, seen, starts.runs, job.codes, invocation)
        return hand_over(report, job.redactor, directory, as_json=as_json)
