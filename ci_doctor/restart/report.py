# SPDX-License-Identifier: Apache-2.0
"""From what was observed to an outcome: promises, verdict, findings, tables, facts. Pure."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from ci_doctor.model.facts.launch import ServiceFailure, ServiceRun
from ci_doctor.model.facts.restart_check import (
    Moment,
    Observation,
    Phase,
    RestartCheckFacts,
    RestartEnding,
    Terms,
)
from ci_doctor.model.outcome import (
    Attempt,
    Case,
    CaseOutcome,
    Evidence,
    Finding,
    Outcome,
    Row,
    Table,
    Verdict,
    row,
    seconds,
    share,
    size,
)
from ci_doctor.render.formatting import amount, duration, part_of
from ci_doctor.restart import rules
from ci_doctor.restart.promises import (
    Promise,
    State,
    as_fast,
    broken,
    kept,
    kept_answers,
    memory_released,
    no_request_hangs,
    nothing_lost,
    port_released,
    real_answers,
    same_model,
    same_outputs,
    suspicious,
    tree_released,
    untested,
    writes_kept,
)
from ci_doctor.services.findings import evidence_of, finding_of, leak_table, stop_findings
from ci_doctor.services.instance import attempt_of, interrupted, logs_of, with_relative_log


def judge(observation: Observation, terms: Terms) -> tuple[Promise, ...]:
    """Every promise, in the order in which a restart can break them."""
    promises: tuple[Promise, ...] = (
        _others_live(observation, terms),
        no_request_hangs(observation, terms),
        port_released(observation, terms),
        tree_released(observation, terms),
        memory_released(observation, terms),
        _recovered(observation, terms),
        nothing_lost(observation),
        as_fast(observation, terms),
        same_outputs(observation, terms),
        real_answers(observation),
    )
    if terms.control_starts:
        promises = (*promises, kept_answers(observation, terms))
    if terms.acknowledged:
        promises = (*promises, writes_kept(observation))
    # Most stand-ins name no model, and a promise that nobody can test is noise.
    if not observation.answers.models_before:
        return promises
    return (*promises, same_model(observation))


def _failed(observation: Observation, kill: str, *, own: bool) -> ServiceFailure | None:
    """The first service that failed after the kill and is (`own`) or is not the killed one."""
    if observation.was_killed:
        for failure in observation.failures:
            if (failure.service == kill) is own:
                return failure
    return None


def _others_live(observation: Observation, terms: Terms) -> Promise:
    failure = _failed(observation, terms.kill, own=False)
    if failure is not None:
        message = f"{failure.service} did not survive the restart of {terms.kill}"
        return broken(rules.OTHER_DIED, f"{message}: {failure.message}", *evidence_of(failure))
    # Without an outage the others have had nothing to survive.
    if observation.released is None:
        return untested(rules.OTHER_DIED, "the outage was not reached")
    return kept(rules.OTHER_DIED, "no other service ended")


def _recovered(observation: Observation, terms: Terms) -> Promise:
    reason = _why_not_recovered(observation, terms)
    if reason is not None:
        message, evidence = reason
        return broken(rules.NOT_RECOVERED, message, *evidence)
    if observation.recovered_s is None or observation.ready_s is None:
        return untested(rules.NOT_RECOVERED, "it was not started again")
    ready = duration(observation.ready_s)
    recovered = duration(observation.recovered_s)
    return kept(rules.NOT_RECOVERED, f"ready {ready} and recovered {recovered} after the relaunch")


def _why_not_recovered(
    observation: Observation, terms: Terms
) -> tuple[str, tuple[Evidence, ...]] | None:
    failure = _failed(observation, terms.kill, own=True)
    # The most telling reason first: what died cannot be ready either.
    if failure is not None:
        return f"{terms.kill} did not come back: {failure.message}", evidence_of(failure)
    limit = f"{terms.recovery_timeout_s:g} s"
    if observation.not_ready is not None:
        after = f"{limit} after its relaunch"
        return f"{terms.kill} was not ready {after}: {observation.not_ready}", ()
    missing = [result for result in observation.conditions if result.after_s is None]
    if missing:
        first, *others = missing
        evidence = [Evidence(excerpt=f"{result.label}: {result.problem}") for result in others]
        message = f"`{first.label}` did not hold {limit} after the relaunch: {first.problem}"
        return message, tuple(evidence)
    if observation.no_longer_ready is not None:
        return f"after the last load {observation.no_longer_ready}", ()
    return None


# Names of unstable requests that one finding lists; a load may hold thousands.
_SHOWN = 10


def conclude(observation: Observation, promises: Sequence[Promise], terms: Terms) -> Outcome:
    """The verdict with its reason: a broken promise is a failure, and missing evidence is never a pass."""
    broken = _in_state(promises, State.BROKEN)
    if broken:
        tested = len(promises) - len(_in_state(promises, State.UNTESTED))
        names = ", ".join(promise.key for promise in broken)
        message = f"the restart of {terms.kill} broke {len(broken)} of {tested} promises"
        return Outcome(verdict=Verdict.FAILED, summary=f"{message}: {names}")
    # A broken promise stands even if the check did not get to its end; anything else must be
    # complete.
    if not observation.was_killed:
        return _before_the_kill(observation)
    if observation.ending is not RestartEnding.COMPLETE:
        return Outcome(
            verdict=Verdict.INCONCLUSIVE, summary="the budget ended before the check did"
        )
    writes = observation.writes
    emptiness = _answers_prove_nothing(observation, terms) if observation.requests else None
    if terms.acknowledged and (writes is None or not writes.verified):
        problem = (None if writes is None else writes.problem) or "not verified"
        emptiness = f"what became of the acknowledged writes is not known: {problem}"
    if emptiness is not None:
        return Outcome(verdict=Verdict.VOID, summary=emptiness)
    after = observation.counts(Phase.AFTER)
    came_back = f"{terms.kill} was killed by {terms.signal} and came back"
    were = part_of(after.ok, after.sent, "request", past=True)
    answered = f"{were} answered after it, and none hung"
    if writes is not None:
        kept = f"none of {writes.acknowledged} acknowledged writes is lost"
        answered = f"{answered}; {kept}" if after.sent else kept
    return Outcome(verdict=Verdict.PASS, summary=f"{came_back}: {answered}")


def _in_state(promises: Sequence[Promise], state: State) -> list[Promise]:
    return [promise for promise in promises if promise.state is state]


def _before_the_kill(observation: Observation) -> Outcome:
    # The failures come first: a dead service also looks like a spent budget or a bad baseline.
    if observation.failures:
        failure = observation.failures[0]
        error = failure.usage_error
        if error is not None:
            return Outcome(verdict=None, summary=error.message, error=error)
        message = f"nothing was killed yet: {failure.message}"
        return Outcome(verdict=failure.verdict, summary=message)
    if observation.ending is not RestartEnding.COMPLETE:
        summary = "the budget ended before anything was killed"
        writes = observation.writes
        if writes is None:
            return Outcome(verdict=Verdict.INCONCLUSIVE, summary=summary)
        verdict = Verdict.INCONCLUSIVE if writes.acknowledged else Verdict.VOID
        printed = amount(writes.acknowledged, "acknowledged write")
        return Outcome(verdict=verdict, summary=f"{summary}: the load had printed {printed}")
    if observation.unreached is not None:
        return Outcome(verdict=Verdict.VOID, summary=f"nothing was killed: {observation.unreached}")
    reason = _bad_baseline(observation)
    return Outcome(verdict=Verdict.VOID, summary=f"{reason}, so a restart can prove nothing")


def _bad_baseline(observation: Observation) -> str:
    writes = observation.writes
    if writes is not None:
        few = f"{writes.acknowledged} writes were acknowledged before the kill"
        if writes.load_ended is None:
            return f"only {few}"
        return f"the load ended ({writes.load_ended}) when {few}"
    if observation.unready_before:
        label = observation.unready_before[0].label
        return f"`{label}` does not hold even before anything is killed"
    baseline = observation.counts(Phase.BASELINE)
    if not baseline.ok:
        return "nothing was answered even before anything was killed"
    lost = baseline.failed + baseline.hung
    were = part_of(lost, baseline.sent, "request", past=True)
    return f"{were} not answered before the kill"


def _answers_prove_nothing(observation: Observation, terms: Terms) -> str | None:
    # A server that answers 200 without a word passes every other check, whatever it has lost.
    after = observation.counts(Phase.AFTER)
    if not after.ok:
        return "nothing was answered after the recovery"
    # A command has promised its exit code, and need not say anything.
    if not observation.counts(Phase.BASELINE).has_words and not terms.by_command:
        if after.has_words:
            return "no answer held a word before the kill, so nothing can be compared with it"
        return "no answer holds a word, before the kill and after it"
    is_all_unstable = len(observation.unstable) == observation.requests
    if terms.same_outputs and is_all_unstable:
        return (
            "the baseline itself never answers the same twice, so nothing can be compared with it"
        )
    return None


def findings(
    observation: Observation,
    promises: Sequence[Promise],
    conclusion: Outcome,
    terms: Terms,
) -> Iterator[Finding]:
    """One for each broken promise, or why there is no evidence; then what is worth a look."""
    for promise in _in_state(promises, State.BROKEN):
        yield promise.rule.finding(
            promise.message, evidence=promise.evidence, remedy=promise.rule.remedy
        )
    # After the kill the first failure is a broken promise already.
    if not observation.was_killed and observation.failures:
        yield finding_of(observation.failures[0])
    elif conclusion.verdict is Verdict.VOID:
        yield _void(observation, conclusion)
    elif conclusion.verdict is Verdict.INCONCLUSIVE:
        yield rules.BUDGET_SPENT.finding(conclusion.summary, remedy=rules.BUDGET_SPENT.remedy)
    yield from _noticed(observation)
    yield from suspicious(observation, terms)


def _void(observation: Observation, conclusion: Outcome) -> Finding:
    excerpts = [f"{result.label}: {result.problem}" for result in observation.unready_before]
    excerpts.extend(observation.counts(Phase.BASELINE).errors)
    evidence = [Evidence(excerpt=text) for text in excerpts]
    rule = rules.BASELINE_FAILED
    if observation.was_killed:
        rule = rules.PROVES_NOTHING
    elif observation.unreached is not None:
        rule = rules.MOMENT_NOT_REACHED
    return rule.finding(conclusion.summary, evidence=tuple(evidence), remedy=rule.remedy)


def _noticed(observation: Observation) -> Iterator[Finding]:
    unstable = observation.unstable
    # If every request is unstable, the whole verdict is void and says so itself.
    if 0 < len(unstable) < observation.requests:
        yield rules.UNSTABLE_OUTPUTS.finding(
            f"{len(unstable)} of {observation.requests} requests got different answers in the "
            "baseline itself, and are left out of the comparison",
            evidence=(Evidence(excerpt=" ".join(unstable[:_SHOWN])),),
            remedy=rules.UNSTABLE_OUTPUTS.remedy,
        )
    if observation.stopped is not None:
        yield from stop_findings(observation.stopped)


_GROUP = "restart-check"
_OUTCOMES = {
    State.KEPT: CaseOutcome.PASSED,
    State.BROKEN: CaseOutcome.FAILED,
    State.UNTESTED: CaseOutcome.SKIPPED,
}


def outcome_of(
    observation: Observation,
    terms: Terms,
    starts: Sequence[ServiceRun],
    *,
    directory: Path,
    cwd: Path,
) -> Outcome:
    """What the check comes to.

    The report lies in `directory`; findings name paths below `cwd` relative to it.
    """
    failures = tuple(with_relative_log(failure, cwd) for failure in observation.failures)
    observation = structs.replace(observation, failures=failures)
    promises = judge(observation, terms)
    shared: dict[str, Any] = {
        "tables": tables(observation, terms),
        "facts": facts(observation, promises, terms),
        "attempts": tuple(_attempt(run, directory) for run in starts),
        "attachments": logs_of(starts, directory),
    }
    # A check that a signal ended: what was observed, and no verdict.
    if observation.ending.is_signal:
        error = interrupted(observation.ending.name, observation.stopped)
        return Outcome(verdict=None, summary=error.message, error=error, **shared)
    conclusion = conclude(observation, promises, terms)
    return Outcome(
        verdict=conclusion.verdict,
        summary=conclusion.summary,
        error=conclusion.error,
        findings=tuple(findings(observation, promises, conclusion, terms)),
        cases=cases(promises, reached=observation.was_killed, reason=conclusion.summary),
        **shared,
    )


def tables(observation: Observation, terms: Terms) -> tuple[Table, ...]:
    """The requests by phase, how the restart went, and what is left on the machine."""
    rows = []
    for phase, counts in observation.phases.items():
        rate = counts.answers_a_second
        rate = None if rate is None else round(rate, 1)
        time = seconds(counts.seconds)
        rows.append(row(phase.value, counts.ok, counts.failed, counts.hung, time, rate))
    columns = ("ok", "failed", "hung", "time", "ok/s")
    all_tables = []
    if observation.requests and rows:
        all_tables.append(Table(title="Requests", columns=columns, rows=tuple(rows)))
    # Before the kill there is no restart to tell of.
    if observation.was_killed:
        all_tables.append(Table(title="Restart", rows=tuple(_story(observation, terms))))
    if observation.stopped is not None:
        all_tables += leak_table(observation.stopped.left_behind)
    return tuple(all_tables)


def _story(observation: Observation, terms: Terms) -> Iterator[Row]:
    at = f"at {observation.killed_at} of {observation.requests} requests"
    if terms.moment is not Moment.UNDER_LOAD:
        at = f"after {observation.killed_at} requests"
    writes = observation.writes
    if not observation.requests and writes is not None:
        at = f"after {writes.before_kill} acknowledged writes"
    yield row("killed", f"{terms.kill} by {terms.signal} {at}{_moment(observation, terms)}")
    yield from _times(("ended after", observation.ended_s))
    released = observation.released
    if released is not None:
        yield row("processes gone after", seconds(released.tree_s))
        if released.port is not None:
            yield row(f"port {released.port} free after", seconds(released.port_s))
        yield row("memory before", size(released.rss))
    yield from _times(
        ("relaunched after", observation.outage_s),
        ("ready after", observation.ready_s),
        ("recovered after", observation.recovered_s),
    )
    old = observation.old
    new = observation.new
    if old is not None and new is not None:
        yield row("pid", f"{old.pid} -> {new.pid}")
    if writes is not None and writes.verified:
        kept = writes.acknowledged - writes.lost_count
        yield row("acknowledged writes kept", f"{kept} of {writes.acknowledged}")
    if observation.ratio is not None:
        yield row("throughput", share(observation.ratio))


def _moment(observation: Observation, terms: Terms) -> str:
    """In what the signal came, and how far into it."""
    into = duration(observation.into_s or 0.0)
    match terms.moment:
        case Moment.BEFORE_READY:
            return f", {into} into a start that took {duration(observation.start_s or 0.0)} before"
        case Moment.STOPPING:
            stop = f"a stop that took {duration(observation.stop_s or 0.0)} before"
            return f", {into} into {stop} ({terms.stop_signal})"
        case Moment.SAVING:
            return f", {into} after `saving` held"
        case Moment.UNDER_LOAD:
            return ""


def _times(*steps: tuple[str, float | None]) -> Iterator[Row]:
    """A row for each step that was reached."""
    for label, after_s in steps:
        if after_s is not None:
            yield row(label, seconds(after_s))


def facts(observation: Observation, promises: Sequence[Promise], terms: Terms) -> RestartCheckFacts:
    """Everything as plain data."""
    down_s = None
    if observation.outage_s is not None and observation.ready_s is not None:
        down_s = observation.outage_s + observation.ready_s
    return RestartCheckFacts(
        **structs.asdict(observation),
        terms=terms,
        promises={promise.key: promise.state.value for promise in promises},
        down_s=down_s,
    )


def cases(promises: Sequence[Promise], *, reached: bool, reason: str) -> tuple[Case, ...]:
    """One for each promise.

    If nothing was killed they are errors with the `reason`: nothing was tested, and no case may
    look as if it were.
    """
    all_cases = []
    for promise in promises:
        outcome = _OUTCOMES[promise.state]
        message = promise.message
        # A broken promise stands even without a kill.
        if not reached and promise.state is not State.BROKEN:
            outcome = CaseOutcome.ERROR
            message = reason
        # JUnit readers show it below the message.
        excerpts = [evidence.excerpt for evidence in promise.evidence if evidence.excerpt]
        detail = "\n".join(excerpts) or None
        all_cases.append(
            Case(group=_GROUP, name=promise.name, outcome=outcome, message=message, detail=detail)
        )
    return tuple(all_cases)


def _attempt(run: ServiceRun, directory: Path) -> Attempt:
    story = "never ready" if run.ready_s is None else f"ready after {duration(run.ready_s)}"
    if run.ended_at is not None:
        story += f", {'died' if run.by_itself else 'ended'}: {run.how}"
    # Being killed on purpose is no fault of a start that was ready.
    is_ok = run.ready_s is not None and not run.by_itself
    return attempt_of(run, directory, name=f"{run.name} {run.start}", outcome=story, is_ok=is_ok)
