# SPDX-License-Identifier: Apache-2.0
"""Reads the answers that a report shows: from an experiment to its outcome."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from ci_doctor.correctness.devices import at_once
from ci_doctor.correctness.evidence.files import SAMPLES
from ci_doctor.correctness.preparation import PreparedExperiment
from ci_doctor.correctness.report import figures, picture
from ci_doctor.correctness.report.differences import differences
from ci_doctor.correctness.report.findings import all_left, failure_findings, findings, with_cause
from ci_doctor.correctness.report.levels import (
    JudgedStarts,
    level_facts,
    level_findings,
    level_tables,
    spread_of_requests,
)
from ci_doctor.correctness.report.picture import certainty_tables, order_tables
from ci_doctor.correctness.report.start_evidence import (
    arm_findings,
    control_facts,
    control_tables,
    device_facts,
    device_findings,
    device_tables,
    drift_findings,
    proof_facts,
    proof_tables,
    shared_facts,
    shared_flaw,
    shared_tables,
    unended_flaw,
)
from ci_doctor.correctness.results import Experiment, ExperimentEnding
from ci_doctor.correctness.settings import Arm, EvidencePolicy, OnInconclusive
from ci_doctor.correctness.unusable import unusable
from ci_doctor.correctness.verdict.canary import canary_detected
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.decision import Decision, false_alarm_risk
from ci_doctor.correctness.verdict.validity import without_flaws
from ci_doctor.identity.identity import differences as identity_differences
from ci_doctor.model.facts.answers import LevelFacts
from ci_doctor.model.facts.correctness import (
    BudgetFacts,
    CorrectnessFacts,
    IdentityFacts,
    RepositoryFacts,
    ScheduleFacts,
)
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Failure, Outcome, signal_kind
from ci_doctor.model.table import text_table
from ci_doctor.model.verdict import Verdict, is_green
from ci_doctor.services.findings import leak_table

# The part of a proposed budget that is kept for stopping and for the report.
_RESERVE_S = 12.0


def judge(prepared: PreparedExperiment, experiment: Experiment) -> Decision:
    """The verdict over the starts that were made; if it is undecided, with what would settle it."""
    ids = prepared.plan.ids
    complete = experiment.ending is ExperimentEnding.COMPLETE
    decision = decide(experiment.starts, ids, experiment.rules, complete=complete)
    decision = without_flaws(decision, experiment.starts, experiment.rules)
    decision = _without_doubt(decision, experiment)
    decision = replace(decision, reason=experiment.comparison.stated(decision.reason))
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
    if decision.verdict is not Verdict.INCONCLUSIVE:
        return decision
    if decision.is_final:
        return _let_through(prepared, decision)
    argv = prepared.request.argv
    directory = prepared.context.run
    settle = prepared.pace.next_run(experiment.results, argv, directory, _RESERVE_S)
    return _let_through(prepared, replace(decision, settle=settle))


def _let_through(prepared: PreparedExperiment, decision: Decision) -> Decision:
    """An undecided decision, with what the setting for such runs lets through."""
    if prepared.request.settings.on_inconclusive is OnInconclusive.PASS:
        risk = "on_inconclusive = pass lets through any regression that is not yet proven"
        decision = replace(decision, reason=f"{decision.reason}; let through", risk=risk)
    return decision


def _without_doubt(decision: Decision, experiment: Experiment) -> Decision:
    """The decision, or `void` if a green one may rest on cut answers, or on what one arm left."""
    flaw = shared_flaw(experiment.compared) or unended_flaw(experiment.compared)
    if (
        not is_green(decision.verdict)
        or flaw is None
        or experiment.rules.evidence is not EvidencePolicy.STRICT
    ):
        return decision
    return Decision(verdict=Verdict.VOID, reason=flaw, kinds=decision.kinds)


def conclude(
    prepared: PreparedExperiment,
    experiment: Experiment,
    decision: Decision,
    archive_notes: tuple[str, ...] = (),
) -> Outcome:
    """The outcome of an experiment. `archive_notes` say what was archived after it."""
    context = prepared.context
    directory = prepared.plan.directory
    pairs = differences(experiment, decision, prepared.plan.ids)
    facts = figures.facts(experiment, decision, pairs)
    outcome = Outcome(
        verdict=decision.verdict,
        summary=decision.reason,
        tables=(
            *picture.tables(experiment, decision, pairs, context),
            *certainty_tables(experiment.starts, decision),
            *order_tables(experiment.results, prepared.plan.rules),
            *device_tables(experiment.compared),
            *proof_tables(experiment.compared),
            *shared_tables(experiment.compared),
            *control_tables(experiment.starts, wanted=prepared.plan.control),
        ),
        facts=facts,
        attempts=figures.attempts(experiment, directory),
        attachments=figures.attachments(experiment, directory / SAMPLES, directory),
    )
    if failure := _interruption(experiment):
        # What was gathered is reported; a verdict over a part of the schedule would be arbitrary.
        return replace(outcome, verdict=None, summary=failure.message, error=failure)
    if failure := unusable(experiment.results, prepared.plan.arms):
        return replace(
            outcome,
            verdict=None,
            summary=failure.message,
            error=failure,
            findings=tuple(failure_findings(experiment, decision)),
        )
    levels = _levels(prepared, experiment, decision)
    facts = replace(_all_facts(prepared, experiment, facts, archive_notes), levels=levels)
    tables = (*outcome.tables, *level_tables(levels))
    if prepared.archive:
        lines = (*prepared.archive.notes(), *archive_notes)
        tables = (*tables, text_table(title="Archive", lines=lines))
    tables = (*tables, *leak_table(all_left(experiment)))
    return replace(
        outcome,
        tables=tables,
        facts=facts,
        findings=(
            *findings(experiment, decision, pairs, context),
            *level_findings(levels),
            *prepared.findings,
            *_drift_findings(prepared, experiment),
            *_device_findings(prepared, experiment),
            *arm_findings(decision, facts.identity, prepared.plan.arms),
        ),
        cases=figures.cases(decision, context.requests, _errors(experiment)),
    )


def _levels(
    prepared: PreparedExperiment, experiment: Experiment, decision: Decision
) -> tuple[LevelFacts, ...]:
    judged = JudgedStarts(
        starts=experiment.starts,
        requests=prepared.plan.ids,
        rules=experiment.rules,
        complete=experiment.ending is ExperimentEnding.COMPLETE,
        comparison=experiment.comparison,
        decision=decision,
    )
    return level_facts(judged, lambda requests: spread_of_requests(experiment, requests))


def _drift_findings(prepared: PreparedExperiment, experiment: Experiment) -> Iterator[Finding]:
    if prepared.archive:
        yield from drift_findings(experiment.starts, str(prepared.archive.archive.place))


def _device_findings(prepared: PreparedExperiment, experiment: Experiment) -> Iterator[Finding]:
    places = prepared.plan.places
    if len(places) > 1:
        results = experiment.results
        yield from device_findings(results, prepared.plan.rules, len(places), at_once(places))


def _interruption(experiment: Experiment) -> Failure | None:
    """What a signal that ended the experiment leaves to say; None if none did."""
    ending = experiment.ending
    if not ending.is_signal:
        return None
    return Failure(
        message=f"interrupted by {experiment.ending} after {len(experiment.starts)} starts; "
        "every process was stopped",
        hint="the answers until then are in samples.jsonl; --resume DIR continues with the "
        "finished starts",
        kind=signal_kind(ending.name),
    )


def _errors(experiment: Experiment) -> Mapping[str, str]:
    """The last start's first error of each request."""
    errors: dict[str, str] = {}
    for result in experiment.results:
        errors.update(result.errors)
    return errors


def _all_facts(
    prepared: PreparedExperiment,
    experiment: Experiment,
    facts: CorrectnessFacts,
    archive_notes: tuple[str, ...],
) -> CorrectnessFacts:
    """The facts of the answers, with those of the run."""
    made = [result.start.name for result in experiment.results if result.counts]
    order = [arm.letter for arm in prepared.pace.order]
    plan = prepared.plan
    here = prepared.repository
    repository = None
    if here:
        repository = RepositoryFacts(commit=here.commit, branch=here.branch, dirty=here.dirty)
    return replace(
        facts,
        identity=_identity(prepared, facts.identity),
        repository=repository,
        schedule=ScheduleFacts(
            order=" ".join(order),
            made=" ".join(made),
            seed=plan.rules.seed,
            max_starts=plan.rules.max_starts,
        ),
        caches=plan.caches.value,
        budget=BudgetFacts(seconds=round(plan.deadline - plan.started, 1)),
        archive=archive_notes,
        left_behind=all_left(experiment),
        proof=proof_facts(experiment.compared),
        shared=shared_facts(experiment.compared),
        control=control_facts(experiment.starts),
        devices=device_facts(experiment.compared),
    )


def _identity(prepared: PreparedExperiment, observed: IdentityFacts) -> IdentityFacts:
    """What the machine and the baseline are, with what was `observed` in the starts."""
    baseline, candidate = (prepared.identities[arm] for arm in Arm)
    arms = {}
    for each in identity_differences(baseline, candidate):
        arms[each.fact] = (each.left, each.right)
    return IdentityFacts(
        # Observed last: what was loaded counts more than what is installed.
        facts={**baseline.facts, **baseline.noted, **observed.facts},
        unknown=tuple(sorted({*observed.unknown, *baseline.unknown})),
        why_unknown=dict(baseline.unknown),
        differences=observed.differences,
        arms=arms,
    )
