# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: a search under noise whose starts are jobs of a Buildkite build.

The jobs, their evidence and who counts are those of `correctness --fan-out`, with one start in a job. The step after
a wave replays all evidence, and asks for the starts that the search wants next.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from ci_doctor.buildkite.steps import MOST_JOBS, StepTemplate
from ci_doctor.correctness.asked_jobs import Job, Pair, SearchPlace, Task, enter, hand_on, in_words
from ci_doctor.correctness.fan_out import AssembledEvidence, assemble, leave_pair, with_jobs
from ci_doctor.correctness.localise.noise import ENDS
from ci_doctor.correctness.localise.searching import Place, SearchRun
from ci_doctor.correctness.localise.watched import PlannedStart, StartEvidence
from ci_doctor.correctness.planning import PreparedExperiment
from ci_doctor.errors import InfraError
from ci_doctor.model.outcome import Outcome
from ci_doctor.system.processes.interruption import Interruption

# Jobs of a wave without `concurrency` in the template: both ends as often as each is started first.
_JOBS: Final = 2 * ENDS
BEGIN_ANEW: Final = (
    "begin anew with the first step of this build: with more starts (--max-starts), or on agents of one kind "
    "([correctness.step])"
)


def run_search_job(
    prepared: PreparedExperiment,
    run: SearchRun,
    place: Place,
    environ: Mapping[str, str],
    interruption: Interruption,
    conclude: Callable[[], Outcome],
) -> Outcome:
    """What this job does of the search; `conclude` makes the outcome of what `run` holds then.

    Raises UsageError and InfraError as `enter` does; InfraError if steps or evidence cannot be uploaded or
    gathered, and if a start fails outside the change.
    """
    job = enter(prepared, environ)
    if job.is_first:
        job, wave = _next_wave(prepared, run, job)
        return hand_on(prepared, job, wave) if wave else conclude()
    if not job.task.decides:
        return _make(prepared, run, place, job, interruption, conclude)
    gathered = job.gathered()
    assembled = assemble(prepared, job.task, gathered)
    # What counts is of one kind.
    kinds = (each.agent() for each in assembled.parts.values())
    job = replace(job, task=replace(job.task, kind=job.task.kind or next(kinds, "")))
    task, order = job.task, job.task.order(prepared)
    take(run, task, assembled)
    wave = assembled.lost
    gone = task.lost_for_good(wave)
    if gone:
        names = ", ".join(in_words(order, each) for each in gone)
        run.stopped = f"{names}: no evidence that counts in two jobs"
    elif not wave:
        job, wave = _next_wave(prepared, run, job)
    outcome = hand_on(prepared, job, wave) if wave and not gone else conclude()
    return with_jobs(outcome, order, task, gathered, assembled)


def _next_wave(
    prepared: PreparedExperiment, run: SearchRun, job: Job
) -> tuple[Job, tuple[Pair, ...]]:
    """The job with the places of the starts that the search wants next, and these places."""
    template = prepared.request.settings.step or StepTemplate()
    planned = run.next_starts(min(template.concurrency or _JOBS, MOST_JOBS))
    points = job.task.points
    wave = tuple((len(points) + number,) for number in range(len(planned)))
    more = (SearchPlace(arm=each.arm, point=str(each.point)) for each in planned)
    return replace(job, task=replace(job.task, points=(*points, *more))), wave


def planned_at(task: Task, place: int) -> PlannedStart:
    """The start at a place; its number counts those of its arm up to there. Pure."""
    arms = [each.arm for each in task.points[: place + 1]]
    return PlannedStart(
        arm=arms[-1], number=arms.count(arms[-1]), point=int(task.points[place].point)
    )


def _make(
    prepared: PreparedExperiment,
    run: SearchRun,
    place: Place,
    job: Job,
    interruption: Interruption,
    conclude: Callable[[], Outcome],
) -> Outcome:
    pair = job.pair()
    run.make(place, interruption, given=planned_at(job.task, pair[0]))
    if interruption.received is not None:
        return conclude()
    results = [each.result for each in run.evidence if each.result is not None]
    for each in results:
        if each.start.outside:
            failure = each.failure.message if each.failure else ""
            raise InfraError(f"{each.start.name} fails outside the change: {failure}")
    broken: str = prepared.redactor.value("".join(each.broken for each in run.evidence))
    return leave_pair(prepared, job, pair, results, broken)


def take(run: SearchRun, task: Task, assembled: AssembledEvidence) -> None:
    """Give the search all evidence that counts. Raises InfraError if an end cannot be built."""
    results = {result.start.name: result for result in assembled.experiment.results}
    for pair, part in assembled.parts.items():
        planned = planned_at(task, pair[0])
        if part.broken:
            run.take_broken(StartEvidence(planned=planned, broken=part.broken))
        else:
            run.evidence.append(StartEvidence(planned=planned, result=results[planned.name]))
