# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: makes an experiment, from a request to its outcome.

outcome = run(ExperimentRequest(settings=settings), directory=Path("report"))
"""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.attempt import ExperimentProgress
from ci_doctor.correctness.evidence.resume import Resumed, StartWriter, check_resumable, resume
from ci_doctor.correctness.evidence.run_identity import (
    clear,
    clear_localisation,
    redact_logs,
    write_limits,
    write_run,
)
from ci_doctor.correctness.evidence.samples import Outputs, SampleWriter
from ci_doctor.correctness.experiment import EvidenceFiles, make_starts
from ci_doctor.correctness.localise.report import with_localisation
from ci_doctor.correctness.localise.run import localise
from ci_doctor.correctness.pace import command_line
from ci_doctor.correctness.planning import ExperimentRequest, PreparedExperiment, prepare
from ci_doctor.correctness.report import figures, picture
from ci_doctor.correctness.report.differences import differences
from ci_doctor.correctness.report.findings import (
    REGIONS,
    arm_findings,
    device_findings,
    drift_findings,
    failure_findings,
    failure_to_mend,
    findings,
    sensitivity_findings,
    shared_flaw,
    unended_flaw,
    with_cause,
)
from ci_doctor.correctness.report.picture import level_facts, level_findings, level_tables
from ci_doctor.correctness.results import (
    SAMPLES,
    Experiment,
    ExperimentEnding,
    all_left,
    unusable,
)
from ci_doctor.correctness.settings import Arm, EvidencePolicy, OnInconclusive
from ci_doctor.correctness.verdict.decide import canary_detected, decide
from ci_doctor.correctness.verdict.starts import of_arm
from ci_doctor.correctness.verdict.validity import Decision, false_alarm_risk, without_flaws
from ci_doctor.identity.identity import differences as identity_differences
from ci_doctor.model.facts.correctness import (
    BudgetFacts,
    CorrectnessFacts,
    IdentityFacts,
    PromptRegion,
    RepositoryFacts,
    ScheduleFacts,
)
from ci_doctor.model.outcome import (
    Failure,
    Finding,
    Outcome,
    ShellCommand,
    Table,
    Verdict,
    is_green,
    row,
    signal_kind,
    text_table,
)
from ci_doctor.render.formatting import amount
from ci_doctor.services.findings import leak_table
from ci_doctor.services.spec import LONGEST_RESERVE_S
from ci_doctor.system.processes.interruption import Interruption


def judge(prepared: PreparedExperiment, experiment: Experiment) -> Decision:
    """The verdict over the starts that were made; if it is undecided, with how to go on."""
    ids = prepared.plan.ids
    complete = experiment.ending is ExperimentEnding.COMPLETE
    manner = experiment.comparison.manner
    decision = decide(experiment.starts, ids, experiment.rules, complete=complete, manner=manner)
    decision = without_flaws(decision, experiment.starts, experiment.rules)
    decision = _without_doubt(decision, experiment)
    decision = with_cause(decision, experiment)
    # Before anything else counts: a comparison that notices nothing would call everything equal.
    if not canary_detected(experiment, ids):
        return Decision(
            verdict=Verdict.VOID,
            reason="the comparison is not proven: one answer changed in memory was not noticed, "
            "or could not be read again",
        )
    if decision.verdict is Verdict.REGRESSION and decision.test:
        # Each limit of the run is a plan that may spend alpha.
        total = experiment.rules.alpha * len(experiment.rules.limits)
        risk = false_alarm_risk(replace(decision.test, alpha=total))
        decision = replace(decision, risk=risk)
    is_cut = experiment.ending is ExperimentEnding.BUDGET
    if is_cut and not of_arm(experiment.starts, Arm.BASELINE):
        # Void for the lack of time alone. It is not let through: nothing was seen.
        return _with_next_run(prepared, experiment, decision)
    if decision.verdict is not Verdict.INCONCLUSIVE:
        return _with_sensitivity(decision, experiment)
    # Further starts of a command that cannot run, or that its own log calls broken, decide nothing.
    is_broken = unusable(experiment.results, prepared.plan.arms) is not None
    if decision.is_final or is_broken or failure_to_mend(decision, experiment) is not None:
        return _let_through(prepared, decision)
    return _let_through(prepared, _with_next_run(prepared, experiment, decision))


def _with_next_run(
    prepared: PreparedExperiment, experiment: Experiment, decision: Decision
) -> Decision:
    """A decision with the command of the run that may decide."""
    argv = prepared.request.argv
    directory = prepared.context.run
    cost, command = prepared.pace.next_run(experiment.results, argv, directory, LONGEST_RESERVE_S)
    step = ShellCommand(f"# {cost}\n{command}")
    return replace(decision, settle=f"{cost}: {command}", step=step)


def _with_sensitivity(decision: Decision, experiment: Experiment) -> Decision:
    """A green decision, whose risk is one of faults that change an answer: how many a wrong word changes."""
    level = experiment.comparison.level
    rows = [each for each in figures.sensitivity(experiment.compared) if each.level == level.value]
    if not rows or decision.risk is None or not is_green(decision.verdict):
        return decision
    changed, answers = sum(each.changed for each in rows), sum(each.answers for each in rows)
    words = f"one other word in a prompt changed {changed} of {amount(answers, 'answer')}"
    return replace(decision, risk=f"{decision.risk}; {words}")


def _let_through(prepared: PreparedExperiment, decision: Decision) -> Decision:
    """An undecided decision, with what the setting for such runs lets through."""
    if prepared.request.settings.on_inconclusive is not OnInconclusive.PASS:
        return decision
    risk = "on_inconclusive = pass lets through any regression that is not yet proven"
    return replace(decision, reason=f"{decision.reason}; let through", risk=risk)


def _without_doubt(decision: Decision, experiment: Experiment) -> Decision:
    """The decision, or `void` if a green one may rest on cut answers, or on what one arm left."""
    flaw = shared_flaw(experiment.compared) or unended_flaw(experiment.compared)
    is_strict = experiment.rules.evidence is EvidencePolicy.STRICT
    if flaw is None or not is_strict or not is_green(decision.verdict):
        return decision
    return Decision(verdict=Verdict.VOID, reason=flaw, kinds=decision.kinds)


def conclude(
    prepared: PreparedExperiment,
    experiment: Experiment,
    decision: Decision,
    archive_notes: tuple[str, ...] = (),
) -> Outcome:
    """The outcome of an experiment. `archive_notes` say what was archived after it."""
    context, plan = prepared.context, prepared.plan
    directory = plan.directory
    wrong = unusable(experiment.results, plan.arms)
    if wrong is not None:
        # What to correct is the next step, and no answer of this run.
        context = replace(context, run="")
    pairs = differences(experiment, decision, plan.ids)
    facts = figures.facts(experiment, decision, pairs)
    made = [result.start.name for result in experiment.results if result.counts]
    is_exact = experiment.comparison.is_exact
    outcome = Outcome(
        verdict=decision.verdict,
        summary=decision.reason,
        tables=(
            *picture.tables(facts, decision, pairs, context, is_exact=is_exact),
            *picture.order_tables(made, plan.rules),
            *picture.start_tables(facts, control=plan.control),
        ),
        facts=facts,
        attempts=figures.attempts(experiment, directory),
        attachments=figures.attachments(experiment, directory / SAMPLES, directory),
    )
    if experiment.ending.is_signal:
        # What was gathered is reported; a verdict over a part of the schedule would be arbitrary.
        hint = "no start was finished: run it again"
        if made:
            hint = (
                "the answers until then are in samples.jsonl; "
                f"`{command_line(prepared.request.argv, ['--resume', prepared.context.run])}` continues"
            )
        failure = Failure(
            message=f"interrupted by {experiment.ending} after {len(experiment.starts)} starts; "
            "every process was stopped",
            hint=hint,
            kind=signal_kind(experiment.ending.name),
        )
        return replace(outcome, verdict=None, summary=failure.message, error=failure)
    if wrong is not None:
        findings_of_starts = tuple(failure_findings(experiment, decision))
        return replace(
            outcome, verdict=None, summary=wrong.message, error=wrong, findings=findings_of_starts
        )
    levels = level_facts(experiment, decision, plan.ids)
    left = all_left(experiment.results)
    here = prepared.repository
    facts = replace(
        facts,
        identity=_identity(prepared, facts.identity),
        repository=here
        and RepositoryFacts(commit=here.commit, branch=here.branch, dirty=here.dirty),
        schedule=ScheduleFacts(
            order=" ".join(arm.letter for arm in prepared.pace.order),
            made=" ".join(made),
            seed=plan.rules.seed,
            max_starts=plan.rules.max_starts,
        ),
        caches=plan.caches.value,
        budget=BudgetFacts(seconds=round(plan.deadline - plan.started, 1)),
        archive=archive_notes,
        left_behind=left,
        levels=levels,
    )
    archived = (*prepared.archive.notes(), *archive_notes) if prepared.archive else ()
    return replace(
        outcome,
        tables=(
            *outcome.tables,
            *level_tables(levels),
            *((text_table(title="Archive", lines=archived),) if prepared.archive else ()),
            *leak_table(left),
        ),
        facts=facts,
        findings=(
            *findings(experiment, decision, pairs, context),
            *level_findings(levels),
            *_sensitivity_findings(experiment, decision, facts),
            *prepared.findings,
            *drift_findings(facts.archived),
            *device_findings(experiment.results, plan.rules, len(plan.places), plan.at_once),
            *arm_findings(decision, facts.identity, plan.arms),
        ),
        cases=figures.cases(decision, plan.ids, _errors(experiment)),
    )


def _sensitivity_findings(
    experiment: Experiment, decision: Decision, facts: CorrectnessFacts
) -> Iterator[Finding]:
    """Whether a green verdict rests on requests that show little."""
    # Within a limit, equal means near: exact copies say nothing of that.
    if is_green(decision.verdict) and experiment.comparison.is_exact:
        yield from sensitivity_findings(facts.sensitivity, experiment.comparison.level)


def _errors(experiment: Experiment) -> Mapping[str, str]:
    """The last start's first error of each request."""
    return {request: text for each in experiment.results for request, text in each.errors.items()}


def _identity(prepared: PreparedExperiment, observed: IdentityFacts) -> IdentityFacts:
    """What the machine and the baseline are, with what was `observed` in the starts."""
    baseline, candidate = (prepared.identities[arm] for arm in Arm)
    differing = identity_differences(baseline, candidate)
    return IdentityFacts(
        # Observed last: what was loaded counts more than what is installed.
        facts={**baseline.facts, **baseline.noted, **observed.facts},
        unknown=tuple(sorted({*observed.unknown, *baseline.unknown})),
        why_unknown=dict(baseline.unknown),
        differences=observed.differences,
        arms={each.fact: (each.left, each.right) for each in differing},
    )


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
    order = [arm.letter for arm in prepared.pace.order]
    commands = [
        f"{arm}: {name}: {shlex.join(plan.arms[arm].specs[name].words())}"
        for arm in Arm
        for name in plan.arms[arm].names
    ]
    return Outcome(
        verdict=None,
        summary=f"would send {len(plan.requests)} requests to up to {len(order)} "
        "starts; a dry run starts nothing",
        tables=(
            text_table(title="Services", lines=tuple(commands)),
            text_table(title="Schedule", lines=(" ".join(order), *prepared.notes)),
        ),
    )


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
        finished = begin(prepared)
    for note in prepared.notes:
        on_progress(ExperimentProgress(note=note))
    experiment = make_experiment(prepared, finished, on_progress, interruption)
    if prepared.plan.check_requests:
        return checked_requests(prepared, experiment)
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


def checked_requests(prepared: PreparedExperiment, experiment: Experiment) -> Outcome:
    """What one other word in each prompt changed. `void` if no answer shows it."""
    altered = [one for each in experiment.results for one in each.altered]
    decision = Decision(verdict=Verdict.VOID, reason="no answer shows what one other word changes")
    if altered:
        words, numbers = (
            sum(getattr(one, level) for one in altered) for level in ("words", "numbers")
        )
        decision = Decision(
            verdict=Verdict.PASS,
            reason=f"one other word in the prompt changed the words of {words} of "
            f"{amount(len(altered), 'answer')}, and words or numbers of {numbers}",
        )
    outcome = conclude(prepared, experiment, decision)
    if outcome.verdict is None or not isinstance(outcome.facts, CorrectnessFacts):
        return outcome
    shows_little = [
        row(request, *(cells.get(region, "-") for region in PromptRegion))
        for request, cells in picture.unchanged(altered).items()
    ]
    columns = tuple(REGIONS[region] for region in PromptRegion)
    return replace(
        outcome,
        tables=(
            *picture.start_tables(outcome.facts, control=prepared.plan.control),
            Table(title="Requests that show the least", columns=columns, rows=tuple(shows_little)),
        ),
        cases=(),
    )


def _archived(
    prepared: PreparedExperiment, experiment: Experiment, decision: Decision
) -> tuple[str, ...]:
    """Archive the baseline starts of an experiment that came to its end. Returns notes on it."""
    if prepared.archive is None:
        return ()
    from ci_doctor.correctness.archive.archive import origin_of_run
    from ci_doctor.correctness.archive.run_archive import keep_baseline

    plan = prepared.plan
    commit = prepared.repository.commit if prepared.repository else None
    return keep_baseline(
        prepared.archive,
        experiment,
        decision.verdict,
        plan.directory / SAMPLES,
        plan.environment,
        origin_of_run(plan, commit),
    )


def begin(prepared: PreparedExperiment) -> Resumed:
    """Begin a run in its directory: nothing of an earlier one stays. Raises UsageError."""
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


def make_experiment(
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
