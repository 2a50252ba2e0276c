# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness`."""

import contextlib
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, to_builtins

from ci_doctor import config
from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.options import config_option, dry_run_option, output_options
from ci_doctor.commands.progress import ProgressLines
from ci_doctor.config import Config
from ci_doctor.correctness.conclude import judge, report_fields
from ci_doctor.correctness.evidence import SAMPLES, clear, redact_logs
from ci_doctor.correctness.experiment import run
from ci_doctor.correctness.findings import Context
from ci_doctor.correctness.planning import determinism_findings, parse_arm_variables, plan, read_settings
from ci_doctor.correctness.results import Ending, Experiment
from ci_doctor.correctness.samples import SampleWriter
from ci_doctor.correctness.sampling import sampling_findings
from ci_doctor.correctness.settings import Arm, CorrectnessSettings, Plan
from ci_doctor.errors import UsageError
from ci_doctor.exit_codes import read_exit_codes
from ci_doctor.load.requests import read_requests
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.finding import Finding
from ci_doctor.model.report import Failure, Report, Section
from ci_doctor.model.verdict import Verdict, exit_code
from ci_doctor.system.interruption import deaf
from ci_doctor.system.redaction import Redactor
from ci_doctor.system.repository import checkout

DEFAULT_DIRECTORY = Path("ci-doctor-report")
INTERRUPTIONS = {Ending.SIGINT, Ending.SIGTERM, Ending.SIGHUP, Ending.SIGQUIT}


@click.command("correctness")
@click.option("--baseline", metavar="CMD", help="Start the baseline like this; {port} becomes a free port.")
@click.option("--candidate", metavar="CMD", help="Start the candidate like this.")
@click.option("--requests", metavar="FILE", help="JSONL, one request a line.")
@click.option("--retries", type=click.IntRange(min=1), help="Candidate starts in all. [default: 3]")
@click.option("--env", "variables", multiple=True, metavar="ARM:NAME=VALUE", help="A variable for one arm. Repeatable.")
@click.option("--ready", metavar="PATH|URL", help="What answers 200 once the server is ready. [default: /health]")
@click.option("--concurrency", type=click.IntRange(min=1), help="Requests under way at once. [default: 40]")
@click.option("--passes", type=click.IntRange(min=1), help="Times that every start is asked everything. [default: 1]")
@click.option("--start-timeout", metavar="S", help="What a server has to become ready. [default: 600s]")
@click.option("--request-timeout", metavar="S", help="What a request has to be answered. [default: 120s]")
@click.option("--budget", metavar="S", help="Wall clock for the whole, report included. [default: 25m]")
@click.option("--only", multiple=True, metavar="ID", help="Ask only the request with this id. Repeatable.")
@click.option(
    "--fail-on-flaky", is_flag=True, default=None, help="Exit with 7 instead of 0 where the verdict is flaky."
)
@config_option
@dry_run_option
@output_options
@click.pass_obj
def correctness(
    invocation: Invocation,
    /,
    *,
    dry_run: bool,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
    **options: Any,
) -> int:
    """Start a baseline and a candidate server, ask both the same, and say what a difference means.

    If the first two starts answer alike, byte for byte, that is a pass. If not, both arms are started again until it is
    known whether the baseline agrees with itself. Exit codes: 0 pass or flaky, 1 regression, 75 infra, 86 undecided.
    """
    directory = invocation.report_directory or DEFAULT_DIRECTORY
    if dry_run:
        planned = _prepare(invocation, directory, **options).plan
        return deliver(_dry(planned, invocation), as_json=as_json, directory=None, text_to=sys.stdout)
    # Before anything else, so that no report of an earlier attempt outlives this one, however it ends.
    claim(directory)
    job = _prepare(invocation, directory, **options)
    clear(directory)
    redactor = Redactor.from_environment(os.environ, *job.secrets)
    experiment = _run(job, redactor)
    with deaf() if experiment.ending in INTERRUPTIONS else contextlib.nullcontext():
        report = _report(job, experiment, invocation)
        return _hand_over(report, redactor, as_json=as_json, directory=directory)


def _hand_over(report: Report, redactor: Redactor, *, as_json: bool, directory: Path) -> int:
    """The exit code. A verdict stands, whether or not it can be shown: a full disk below stdout must not turn it into 75."""
    try:
        return deliver(report, as_json=as_json, directory=directory, text_to=sys.stdout, redactor=redactor)
    except BrokenPipeError:
        raise  # the boundary knows what a reader that has left means
    except OSError:
        return report.exit_code or int(ExitCode.INFRA)


class Job(Struct, frozen=True, kw_only=True):
    """Everything that is known before the first start. `secrets` are environments that may hold some."""

    plan: Plan
    context: Context
    noticed: tuple[Finding, ...]
    codes: dict[str, int]
    fail_on_flaky: bool
    secrets: tuple[Mapping[str, str], ...]


def _prepare(
    invocation: Invocation,
    directory: Path,
    *,
    config_path: Path | None,
    variables: tuple[str, ...],
    only: tuple[str, ...],
    **flags: Any,
) -> Job:
    """Find everything that is wrong before anything is started. Raises UsageError."""
    loaded = config.load(config_path, Path.cwd())
    commands = {arm: flags.pop(arm.value) for arm in Arm}
    settings, origins = read_settings(loaded, os.environ, flags, commands, parse_arm_variables(variables))
    codes, _ = read_exit_codes(loaded, os.environ)
    file = _requests_file(settings, loaded, origins)
    requests = read_requests(file, only)
    planned = plan(
        settings, loaded, requests, started=invocation.started, directory=directory.absolute(), environment=os.environ
    )
    return Job(
        plan=planned,
        context=Context(requests_file=os.path.relpath(file), requests=requests, one_request=_one_request(invocation)),
        noticed=(*sampling_findings(requests, file), *determinism_findings(planned)),
        codes=codes,
        fail_on_flaky=settings.fail_on_flaky,
        secrets=tuple(spec.env for arm in planned.arms.values() for spec in arm.specs.values()),
    )


def _run(job: Job, redactor: Redactor) -> Experiment:
    """Make the experiment; however it ends, no log keeps a secret."""
    directory = job.plan.directory
    try:
        with SampleWriter(directory / SAMPLES, redactor) as writer, ProgressLines() as progress:
            return run(job.plan, writer, progress)
    finally:
        for warning in redact_logs(directory, redactor):
            click.echo(f"warning: {warning}", err=True)


def _report(job: Job, experiment: Experiment, invocation: Invocation) -> Report:
    """What the experiment means."""
    directory = job.plan.directory
    decision = judge(experiment, job.context)
    fields = report_fields(
        experiment, decision, job.context, samples=directory / SAMPLES, directory=directory, noticed=job.noticed
    )
    if experiment.ending in INTERRUPTIONS:
        return _interrupted(experiment, invocation, fields)
    fields["facts"]["repository"] = to_builtins(checkout(Path.cwd()))
    code = _code(decision.verdict, job.codes, fail_on_flaky=job.fail_on_flaky)
    return invocation.report(verdict=decision.verdict, exit_code=code, summary=decision.reason, **fields)


def _requests_file(settings: CorrectnessSettings, loaded: Config, origins: Mapping[str, str]) -> Path:
    if settings.requests is None:
        raise UsageError("no requests file is named", hint='give --requests FILE, or requests = "…" in [correctness]')
    return config.path_in(loaded, origins["requests"], settings.requests)


def _one_request(invocation: Invocation) -> str:
    """The command line that asks one request alone, but for its id."""
    return shlex.join(["ci-doctor", *invocation.argv, "--only"])


def _code(verdict: Verdict, codes: Mapping[str, int], *, fail_on_flaky: bool) -> int:
    """The exit code, in the repository's own numbers; what passes stays 0."""
    own = exit_code(verdict, fail_on_flaky=fail_on_flaky)
    return own if own == ExitCode.PASS else codes.get(verdict.value, own)


def _interrupted(experiment: Experiment, invocation: Invocation, fields: dict[str, Any]) -> Report:
    """The report of an experiment that a signal ended: what was gathered, and no verdict."""
    code = ExitCode.SIGINT if experiment.ending is Ending.SIGINT else ExitCode.SIGTERM
    message = f"interrupted by {experiment.ending} after {len(experiment.starts)} starts; every process was stopped"
    return invocation.report(
        verdict=None,
        error=Failure(message=message, hint="what was answered until then is in samples.jsonl"),
        exit_code=code,
        summary=message,
        **{**fields, "findings": (), "cases": ()},
    )


def _dry(planned: Plan, invocation: Invocation) -> Report:
    """What would be started, and nothing done."""
    lines = [
        f"{arm}: {name}: {shlex.join(planned.arms[arm].specs[name].words())}"
        for arm in Arm
        for name in planned.arms[arm].names
    ]
    summary = f"would ask {len(planned.requests)} requests of up to {planned.retries} candidate starts"
    return invocation.report(
        verdict=None,
        error=Failure(message="a dry run starts nothing", hint="run it without --dry-run for a verdict"),
        exit_code=ExitCode.PASS,
        summary=summary,
        sections=(Section(title="Services", lines=tuple(lines)),),
    )
