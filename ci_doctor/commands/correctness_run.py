# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor correctness` does: prepare, make the experiment, hand over the report."""

import contextlib
import sys
from pathlib import Path
from typing import Any

from ci_doctor.commands.correctness_job import Job, prepare
from ci_doctor.commands.correctness_report import INTERRUPTIONS, dry_report, report_of
from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.telling.experiment import ExperimentSource
from ci_doctor.commands.telling.teller import Teller
from ci_doctor.correctness.attempt import Progress
from ci_doctor.correctness.evidence.files import SAMPLES, clear, redact_logs
from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.evidence.record import StartWriter
from ci_doctor.correctness.evidence.resume import Resumed
from ci_doctor.correctness.evidence.resume import resume as resume_run
from ci_doctor.correctness.evidence.runs import write_run
from ci_doctor.correctness.evidence.samples import SampleWriter
from ci_doctor.correctness.experiment import Records, run
from ci_doctor.correctness.results import Experiment
from ci_doctor.errors import UsageError
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.report import Report
from ci_doctor.system.processes.interruption import signals_ignored
from ci_doctor.system.secrets.redaction import Redactor

DEFAULT_DIRECTORY = Path("ci-doctor-report")


def run_experiment(
    invocation: Invocation,
    *,
    dry_run: bool,
    as_json: bool,
    report_dir: Path | None,
    resume: str | None,
    **options: Any,
) -> int:
    """The exit code of the whole. Raises as `prepare`, `resume` and `run`."""
    directory = (
        Path(resume) if resume is not None else invocation.report_directory or DEFAULT_DIRECTORY
    )
    if dry_run:
        planned = prepare(invocation, directory, **options)
        return deliver(
            dry_report(planned, invocation), as_json=as_json, directory=None, text_to=sys.stdout
        )
    if resume is None:
        # Before anything else, so that no report of an earlier attempt outlives this one, however it ends.
        claim(directory)
    elif report_dir is not None:
        raise UsageError(
            "--resume names the report directory already", hint="leave --report-dir out"
        )
    job = prepare(invocation, directory, **options)
    with Teller(ExperimentSource(), job.redactor) as tell:
        finished = _begin(job) if resume is None else _resume(job, tell)
        for note in job.notes:
            tell.say(note)
        experiment = _run(job, finished, tell)
    with signals_ignored() if experiment.ending in INTERRUPTIONS else contextlib.nullcontext():
        report = report_of(job, experiment, invocation)
        return _hand_over(report, job.redactor, as_json=as_json, directory=directory)


def _hand_over(report: Report, redactor: Redactor, *, as_json: bool, directory: Path) -> int:
    """The exit code. A verdict stands, whether or not it can be shown: a full disk below stdout must not turn it into 75."""
    try:
        return deliver(
            report, as_json=as_json, directory=directory, text_to=sys.stdout, redactor=redactor
        )
    except BrokenPipeError:
        raise  # the boundary knows what a reader that has left means
    except OSError:
        return report.exit_code or int(ExitCode.INFRA)


def _begin(job: Job) -> Resumed:
    clear(job.plan.directory)
    write_run(job.plan.directory, job.identity)
    return Resumed(results=(), outputs=Outputs())


def _resume(job: Job, tell: Teller[Progress]) -> Resumed:
    """Take up the run in the directory; where that is refused, everything there is left as it was."""
    plan = job.plan
    ids = [request.id for request in plan.requests]
    finished = resume_run(plan.directory, job.identity, ids=ids, passes=plan.passes)
    claim(plan.directory)
    names = " ".join(result.start.name for result in finished.results) or "no finished start"
    tell.say(f"going on with {names}", *finished.again)
    return finished


def _run(job: Job, finished: Resumed, tell: Teller[Progress]) -> Experiment:
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
            return run(job.plan, records, tell, job.pace)
    finally:
        for warning in redact_logs(directory, redactor):
            tell.warn(warning)
