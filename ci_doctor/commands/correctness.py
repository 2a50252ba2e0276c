# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness`, and the commands below it."""

import contextlib
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from ci_doctor.commands.correctness_job import Job, prepare
from ci_doctor.commands.correctness_report import INTERRUPTIONS, dry_report, report_of
from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.group import Group
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.options import config_option, dry_run_option, output_options
from ci_doctor.commands.progress import ProgressLines
from ci_doctor.correctness.attempt import Progress
from ci_doctor.correctness.evidence import SAMPLES, clear, redact_logs
from ci_doctor.correctness.experiment import Records, run
from ci_doctor.correctness.outputs import Outputs
from ci_doctor.correctness.record import StartWriter
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.resume import Resumed
from ci_doctor.correctness.resume import resume as resume_run
from ci_doctor.correctness.runs import write_run
from ci_doctor.correctness.samples import SampleWriter
from ci_doctor.correctness.settings import Caches, OnInconclusive, Policy
from ci_doctor.errors import UsageError
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.report import Report
from ci_doctor.system.interruption import deaf
from ci_doctor.system.redaction import Redactor

DEFAULT_DIRECTORY = Path("ci-doctor-report")


class _Below(Group):
    """The commands below, each loaded when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Their names."""
        return ["replay", "compare"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = getattr(import_module(f"ci_doctor.commands.correctness_{cmd_name}"), cmd_name)
        return command


@click.group("correctness", cls=_Below, invoke_without_command=True)
@click.option("--baseline", metavar="CMD", help="Start the baseline like this; {port} becomes a free port.")
@click.option("--candidate", metavar="CMD", help="Start the candidate like this.")
@click.option("--requests", metavar="FILE", help="JSONL, one request a line.")
@click.option("--retries", type=click.IntRange(min=1), help="Candidate starts in all. [default: 3]")
@click.option(
    "--min-candidate-starts",
    type=click.IntRange(min=1),
    help="Clean candidate starts before a pass: more of them see rarer bugs. [default: 1]",
)
@click.option("--alpha", type=float, help="Chance of calling a faultless candidate a regression. [default: 0.05]")
@click.option(
    "--policy",
    type=click.Choice([each.value for each in Policy]),
    help="`any`: one pair of starts that agree is enough, and the risk is printed. [default: control]",
)
@click.option(
    "--on-inconclusive",
    type=click.Choice([each.value for each in OnInconclusive]),
    help="`pass`: exit 0. [default: fail]",
)
@click.option("--env", "variables", multiple=True, metavar="ARM:NAME=VALUE", help="A variable for one arm. Repeatable.")
@click.option("--ready", metavar="PATH|URL", help="What answers 200 once the server is ready. [default: /health]")
@click.option("--concurrency", type=click.IntRange(min=1), help="Requests under way at once. [default: 40]")
@click.option("--passes", type=click.IntRange(min=1), help="Times that every start is asked everything. [default: 2]")
@click.option("--reset", metavar="PATH", help="A POST to the server between two passes, as /reset_prefix_cache.")
@click.option(
    "--caches",
    type=click.Choice([each.value for each in Caches]),
    help="Compile caches of each start. [default: fresh]",
)
@click.option("--start-timeout", metavar="S", help="What a server has to become ready. [default: 600s]")
@click.option("--request-timeout", metavar="S", help="What a request has to be answered. [default: 120s]")
@click.option(
    "--budget", metavar="S", help="Wall clock for the whole, report included. [default: the step's timeout, or 25m]"
)
@click.option("--archive", metavar="DIR", help="Keep baseline starts of trusted builds here, and use those that match.")
@click.option("--resume", metavar="DIR", help="Go on with the run that was cut off in this report directory.")
@click.option("--only", multiple=True, metavar="ID", help="Ask only the request with this id. Repeatable.")
@click.option(
    "--fail-on-flaky", is_flag=True, default=None, help="Exit with 7 instead of 0 where the verdict is flaky."
)
@config_option
@dry_run_option
@output_options
@click.pass_context
def correctness(context: click.Context, /, **options: Any) -> int:
    """Start a baseline and a candidate server, ask both the same, and say what a difference means.

    If the first two starts answer alike, byte for byte, that is a pass. If not, both arms are started again, until an
    exact test over the starts tells a regression from an environment that differs from itself. Exit codes: 0 pass or
    flaky, 1 regression, 75 infra, 85 nondeterministic, 86 undecided.
    """
    return int(ExitCode.PASS) if context.invoked_subcommand else _correctness(context.obj, **options)


def _correctness(
    invocation: Invocation,
    *,
    dry_run: bool,
    as_json: bool,
    report_dir: Path | None,
    resume: str | None,
    **options: Any,
) -> int:
    directory = Path(resume) if resume is not None else invocation.report_directory or DEFAULT_DIRECTORY
    if dry_run:
        planned = prepare(invocation, directory, **options)
        return deliver(dry_report(planned, invocation), as_json=as_json, directory=None, text_to=sys.stdout)
    if resume is None:
        # Before anything else, so that no report of an earlier attempt outlives this one, however it ends.
        claim(directory)
    elif report_dir is not None:
        raise UsageError("--resume names the report directory already", hint="leave --report-dir out")
    job = prepare(invocation, directory, **options)
    with ProgressLines() as progress:
        finished = _begin(job) if resume is None else _resume(job, progress)
        for note in job.notes:
            progress(Progress(note=note))
        experiment = _run(job, finished, progress)
    with deaf() if experiment.ending in INTERRUPTIONS else contextlib.nullcontext():
        report = report_of(job, experiment, invocation)
        return _hand_over(report, job.redactor, as_json=as_json, directory=directory)


def _hand_over(report: Report, redactor: Redactor, *, as_json: bool, directory: Path) -> int:
    """The exit code. A verdict stands, whether or not it can be shown: a full disk below stdout must not turn it into 75."""
    try:
        return deliver(report, as_json=as_json, directory=directory, text_to=sys.stdout, redactor=redactor)
    except BrokenPipeError:
        raise  # the boundary knows what a reader that has left means
    except OSError:
        return report.exit_code or int(ExitCode.INFRA)


def _begin(job: Job) -> Resumed:
    clear(job.plan.directory)
    write_run(job.plan.directory, job.identity)
    return Resumed(results=(), outputs=Outputs())


def _resume(job: Job, progress: ProgressLines) -> Resumed:
    """Take up the run in the directory; where that is refused, everything there is left as it was."""
    plan = job.plan
    ids = [request.id for request in plan.requests]
    finished = resume_run(plan.directory, job.identity, ids=ids, passes=plan.passes)
    claim(plan.directory)
    names = " ".join(result.start.name for result in finished.results) or "no finished start"
    progress(Progress(note=f"going on with {names}"))
    for sentence in finished.again:
        progress(Progress(note=sentence))
    return finished


def _run(job: Job, finished: Resumed, progress: ProgressLines) -> Experiment:
    """Make the experiment; however it ends, no log keeps a secret."""
    directory, redactor = job.plan.directory, job.redactor
    try:
        with (
            SampleWriter(directory / SAMPLES, redactor, append=True) as samples,
            StartWriter(directory, redactor, append=True) as starts,
        ):
            records = Records(
                samples=samples,
                starts=starts,
                outputs=finished.outputs,
                finished=finished.results,
                archived=job.archived(finished.outputs),
            )
            return run(job.plan, records, progress, job.pace)
    finally:
        for warning in redact_logs(directory, redactor):
            click.echo(f"warning: {warning}", err=True)
