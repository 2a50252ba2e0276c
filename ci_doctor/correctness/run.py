# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: makes an experiment, from a request to its outcome.

outcome = run(ExperimentRequest(settings=settings), directory=Path("report"))
"""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ci_doctor.correctness.attempt import ExperimentProgress
from ci_doctor.correctness.conclude import conclude, judge
from ci_doctor.correctness.evidence.begin_run import write_limits, write_run
from ci_doctor.correctness.evidence.files import SAMPLES, clear, clear_localisation, redact_logs
from ci_doctor.correctness.evidence.finished_starts import StartWriter
from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.evidence.resume import Resumed, check_resumable, resume
from ci_doctor.correctness.evidence.samples import SampleWriter
from ci_doctor.correctness.experiment import EvidenceFiles, make_starts
from ci_doctor.correctness.localise.report import with_localisation
from ci_doctor.correctness.localise.run import localise
from ci_doctor.correctness.preparation import PreparedExperiment, prepare
from ci_doctor.correctness.request import ExperimentRequest
from ci_doctor.correctness.results import Experiment, ExperimentEnding
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.unusable import unusable
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import text_table
from ci_doctor.system.processes.interruption import Interruption

OnProgress = Callable[[ExperimentProgress], None]


def run(
    request: ExperimentRequest,
    *,
    directory: Path,
    environment: Mapping[str, str] = os.environ,
    on_progress: OnProgress = lambda _: None,
) -> Outcome:
    """Make an experiment, and leave no process behind.

    `directory` is the report directory: it gets samples, logs, and what a later run needs to
    resume. `environment` is the servers'. Signals that ask to end are handled meanwhile, so call it
    in the main thread. Raises UsageError if something is wrong before the first start, and
    InfraError if evidence cannot be written.
    """
    prepared = prepare(request, directory, environment)
    interruption = Interruption()
    with interruption.handling():
        return run_prepared(prepared, on_progress, interruption=interruption)


def preview(
    request: ExperimentRequest, *, directory: Path, environment: Mapping[str, str] = os.environ
) -> Outcome:
    """What `run` would start. Nothing is started or written. Raises UsageError."""
    prepared = prepare(request, directory, environment)
    plan = prepared.plan
    pace = prepared.pace
    order = " ".join(arm.letter for arm in pace.order)
    outlook = pace.outlook((), plan.started)
    return Outcome(
        verdict=None,
        summary=f"would send {len(plan.requests)} requests to up to {len(pace.order)} "
        "starts; a dry run starts nothing",
        tables=(
            text_table(title="Services", lines=tuple(_command_lines(prepared))),
            text_table(title="Schedule", lines=(order, *prepared.notes, outlook)),
        ),
    )


def _command_lines(prepared: PreparedExperiment) -> Iterator[str]:
    for arm in Arm:
        arm_plan = prepared.plan.arms[arm]
        for name in arm_plan.names:
            yield f"{arm}: {name}: {shlex.join(arm_plan.specs[name].words())}"


def check_prepared(prepared: PreparedExperiment) -> None:
    """Refuse to resume another run, before anything in its directory changes. Raises UsageError."""
    if prepared.request.resume:
        check_resumable(prepared.plan.directory, prepared.identity)


def run_prepared(
    prepared: PreparedExperiment,
    on_progress: OnProgress = lambda _: None,
    *,
    interruption: Interruption,
    on_resumed: Callable[[], None] = lambda: None,
) -> Outcome:
    """`run`, for a caller that has something to do between the checks and the first start.

    `interruption` is handling signals, and goes on doing so: a cancelled job gets a second signal
    soon, and neither the outcome nor its report may be lost by it. `on_resumed` is called once the
    run in the directory is accepted for being resumed.
    """
    if prepared.request.resume:
        finished = _resumed(prepared, on_progress)
        on_resumed()
    else:
        finished = _begun(prepared)
    for note in prepared.notes:
        on_progress(ExperimentProgress(note=note))
    experiment = _experiment(prepared, finished, on_progress, interruption)
    prepared = prepared.until(experiment.deadline)
    decision = judge(prepared, experiment)
    is_judged = experiment.ending in {ExperimentEnding.COMPLETE, ExperimentEnding.BUDGET}
    if not is_judged or unusable(experiment.results, prepared.plan.arms):
        return conclude(prepared, experiment, decision)
    archive_notes = _archived(prepared, experiment, decision)
    outcome = conclude(prepared, experiment, decision, archive_notes)
    localisation = localise(prepared, experiment, decision, on_progress, interruption)
    if localisation is None:
        return outcome
    argv, run_words = prepared.request.argv, prepared.context.run
    return with_localisation(outcome, localisation, argv, run_words, prepared.plan.directory)


def _archived(
    prepared: PreparedExperiment, experiment: Experiment, decision: Decision
) -> tuple[str, ...]:
    """Archive the baseline starts of an experiment that came to its end. Returns notes on it."""
    if prepared.archive is None:
        return ()
    from ci_doctor.correctness.archive.run_archive import keep_baseline
    from ci_doctor.correctness.archive.run_origin import origin_of_run

    plan = prepared.plan
    samples = plan.directory / SAMPLES
    commit = prepared.repository.commit if prepared.repository else None
    origin = origin_of_run(plan, commit)
    return keep_baseline(
        prepared.archive, experiment, decision.verdict, samples, plan.environment, origin
    )


def _begun(prepared: PreparedExperiment) -> Resumed:
    # This order: a kill in between leaves no run.json, so nobody resumes half of two runs.
    clear(prepared.plan.directory)
    write_run(prepared.plan.directory, prepared.identity, prepared.plan.rules.limits)
    return Resumed(results=(), outputs=Outputs(prepared.plan.directory))


def _resumed(prepared: PreparedExperiment, on_progress: OnProgress) -> Resumed:
    """The finished starts of the run in the directory. A refusal changes nothing there."""
    plan = prepared.plan
    finished = resume(
        plan.directory,
        prepared.identity,
        ids=plan.ids,
        passes=plan.passes,
        arms=plan.arms,
        requests=plan.requests,
    )
    clear_localisation(plan.directory)
    write_limits(plan.directory, plan.rules.limits)
    names = " ".join(result.start.name for result in finished.results) or "no finished start"
    for note in (f"resuming with {names}", *finished.again):
        on_progress(ExperimentProgress(note=note))
    return finished


def _experiment(
    prepared: PreparedExperiment,
    finished: Resumed,
    on_progress: OnProgress,
    interruption: Interruption,
) -> Experiment:
    """Make the starts. However that ends, no log keeps a secret."""
    directory = prepared.plan.directory
    redactor = prepared.redactor
    try:
        with (
            # Append in both cases: a new run has removed the old files, a resumed one keeps them.
            SampleWriter(directory / SAMPLES, redactor, append=True) as samples,
            StartWriter(directory, redactor, append=True) as starts,
        ):
            files = EvidenceFiles(
                samples=samples,
                starts=starts,
                outputs=finished.outputs,
                finished=finished.results,
                archived=prepared.archived(finished.outputs),
            )
            return make_starts(prepared.plan, files, on_progress, prepared.pace, interruption)
    finally:
        for removed in redact_logs(directory, redactor):
            on_progress(ExperimentProgress(note=f"warning: {removed}"))
