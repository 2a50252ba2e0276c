# SPDX-License-Identifier: Apache-2.0
"""From what was observed to an outcome: promises, verdict, findings, tables, facts. Pure."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from ci_doctor.model.facts.restart_check import (
    ConditionResult,
    Observation,
    Phase,
    RestartCheckFacts,
    RestartEnding,
    Terms,
)
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import (
    Attachment,
    Attempt,
    Case,
    CaseOutcome,
    Failure,
    Outcome,
    signal_kind,
)
from ci_doctor.model.service import ServiceFailure
from ci_doctor.model.table import Row, Table, row, seconds, share, size
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import duration
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
from ci_doctor.services.instance import EventKind, ServiceEvent
from ci_doctor.services.spec import relative


class StartRun(Struct, frozen=True, kw_only=True):
    """One start: `number` counts those of its service; `ready_s` is what it took to become ready.

    `by_itself` tells that nobody had requested its end, `how` by what it ended. `peak_rss` is
    bytes.
    """

    service: str
    number: int
    pid: int | None = None
    log: str | None = None
    started_at: float
    ended_at: float | None = None
    ready_s: float | None = None
    by_itself: bool = False
    how: str | None = None
    peak_rss: int | None = None

    @property
    def duration_s(self) -> float:
        """From its start to its end, as far as that is known."""
        if self.ended_at is None:
            return 0.0
        return self.ended_at - self.started_at

    @property
    def outcome(self) -> str:
        """`ready after 3.2 s, ended: killed by SIGKILL`."""
        story = "never ready"
        if self.ready_s is not None:
            story = f"ready after {duration(self.ready_s)}"
        if self.ended_at is not None:
            story += ", died" if self.by_itself else ", ended"
            if self.how:
                story += f": {self.how}"
        return story


class Starts:
    """Takes every event of a group."""

    def __init__(self) -> None:
        # By service and number: each start of a service has a log and an end of its own.
        self._runs: dict[tuple[str, int], StartRun] = {}

    def add(self, event: ServiceEvent) -> None:
        """Take note of an event."""
        if event.service is None:
            return
        number = event.start or 1
        key = (event.service, number)
        if event.kind is EventKind.STARTED:
            self._runs[key] = StartRun(
                service=event.service,
                number=number,
                pid=event.pid,
                log=event.log,
                started_at=event.at,
            )
        elif key in self._runs:
            self._runs[key] = _after(self._runs[key], event)

    @property
    def runs(self) -> tuple[StartRun, ...]:
        """In the order in which they were started."""
        return tuple(self._runs.values())


def _after(run: StartRun, event: ServiceEvent) -> StartRun:
    if event.kind is EventKind.READY:
        return structs.replace(run, ready_s=event.duration_s)
    if event.kind not in {EventKind.DIED, EventKind.STOPPED}:
        return run
    # The stop of the group reports every service once more; the first end is the real one.
    if run.ended_at is not None:
        return run
    how = None
    if event.exit_code is not None:
        how = f"exit code {event.exit_code}"
    elif event.signal:
        how = f"killed by {event.signal}"
    return structs.replace(
        run,
        ended_at=event.at,
        by_itself=event.kind is EventKind.DIED,
        how=how,
        peak_rss=event.peak_rss,
    )


def judge(observation: Observation, terms: Terms) -> tuple[Promise, ...]:
    """Every promise, in the order in which a restart can break them."""
    promises: tuple[Promise, ...] = (
        _others_live(observation, terms),
        no_request_hangs(observation, terms),
        port_released(observation, terms),
        tree_released(observation, terms),
        memory_released(observation, terms),
        _recovered(observation, terms),
        _identity_changed(observation, terms),
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
    name = "the other services live on"
    rule = rules.OTHER_DIED
    failure = _failed(observation, terms.kill, own=False)
    if failure is not None:
        message = f"{failure.service} did not survive the restart of {terms.kill}"
        return broken(name, rule, f"{message}: {failure.message}", *evidence_of(failure))
    # Without an outage the others have had nothing to survive.
    if observation.released is None:
        return untested(name, rule, "the outage was not reached")
    return kept(name, rule, "no other service ended")


def _recovered(observation: Observation, terms: Terms) -> Promise:
    name = "the service recovers"
    rule = rules.NOT_RECOVERED
    reason = _why_not_recovered(observation, terms)
    if reason is not None:
        message, evidence = reason
        return broken(name, rule, message, *evidence)
    if observation.recovered_s is None or observation.ready_s is None:
        return untested(name, rule, "it was not started again")
    ready = duration(observation.ready_s)
    recovered = duration(observation.recovered_s)
    return kept(name, rule, f"ready {ready} and recovered {recovered} after the relaunch")


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
        return _why_conditions_fail(missing, limit)
    if observation.no_longer_ready is not None:
        return f"after the last load {observation.no_longer_ready}", ()
    return None


def _why_conditions_fail(
    missing: Sequence[ConditionResult], limit: str
) -> tuple[str, tuple[Evidence, ...]]:
    """The first condition that did not hold as a sentence, the others as evidence."""
    first, *others = missing
    evidence = [Evidence(excerpt=f"{result.label}: {result.problem}") for result in others]
    message = f"`{first.label}` did not hold {limit} after the relaunch: {first.problem}"
    return message, tuple(evidence)


def _identity_changed(observation: Observation, terms: Terms) -> Promise:
    name = "it is another process"
    rule = rules.SAME_IDENTITY
    old = observation.old
    new = observation.new
    if old is None or new is None:
        return untested(name, rule, "it was not started again")
    # The start time is part of the identity, so a reused pid is not taken for the old process.
    if old == new:
        message = f"{terms.kill} is the same process as before the kill (pid {old.pid})"
        return broken(name, rule, message)
    return kept(name, rule, f"pid {old.pid} became pid {new.pid}")


# Names of unstable requests that one finding lists; a load may hold thousands.
_SHOWN = 10


class RestartConclusion(Struct, frozen=True, kw_only=True):
    """The verdict and its reason, one sentence without a full stop.

    Without a verdict, `error` tells why there is none.
    """

    verdict: Verdict | None
    reason: str
    error: Failure | None = None


def conclude(
    observation: Observation, promises: Sequence[Promise], terms: Terms
) -> RestartConclusion:
    """The verdict: a broken promise is a failure, and missing evidence is never a pass."""
    broken = _in_state(promises, State.BROKEN)
    if broken:
        tested = len(promises) - len(_in_state(promises, State.UNTESTED))
        names = ", ".join(promise.key for promise in broken)
        message = f"the restart of {terms.kill} broke {len(broken)} of {tested} promises"
        return _concluded(Verdict.FAILED, f"{message}: {names}")
    # A broken promise stands even if the check did not get to its end; anything else must be
    # complete.
    if not observation.was_killed:
        return _before_the_kill(observation)
    if observation.ending is not RestartEnding.COMPLETE:
        return _concluded(Verdict.INCONCLUSIVE, "the budget ended before the check did")
    emptiness = _proves_nothing(observation, terms)
    if emptiness is not None:
        return _concluded(Verdict.VOID, emptiness)
    after = observation.counts(Phase.AFTER)
    came_back = f"{terms.kill} was killed by {terms.signal} and came back"
    answered = f"{after.ok} of {after.sent} requests were answered after it, and none hung"
    writes = observation.writes
    if writes is not None:
        kept = f"none of {writes.acknowledged} acknowledged writes is lost"
        answered = f"{answered}; {kept}" if after.sent else kept
    return _concluded(Verdict.PASS, f"{came_back}: {answered}")


def _concluded(verdict: Verdict, reason: str) -> RestartConclusion:
    return RestartConclusion(verdict=verdict, reason=reason)


def _in_state(promises: Sequence[Promise], state: State) -> list[Promise]:
    return [promise for promise in promises if promise.state is state]


def _before_the_kill(observation: Observation) -> RestartConclusion:
    # The failures come first: a dead service also looks like a spent budget or a bad baseline.
    if observation.failures:
        failure = observation.failures[0]
        error = failure.usage_error
        if error is not None:
            return RestartConclusion(verdict=None, reason=error.message, error=error)
        message = f"nothing was killed yet: {failure.message}"
        return _concluded(failure.verdict, message)
    if observation.ending is not RestartEnding.COMPLETE:
        return _concluded(Verdict.INCONCLUSIVE, "the budget ended before anything was killed")
    reason = _bad_baseline(observation)
    return _concluded(Verdict.VOID, f"{reason}, so a restart can prove nothing")


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
    return f"{lost} of {baseline.sent} requests were not answered before the kill"


def _proves_nothing(observation: Observation, terms: Terms) -> str | None:
    writes = observation.writes
    if terms.acknowledged and (writes is None or not writes.verified):
        problem = None if writes is None else writes.problem
        return f"what became of the acknowledged writes is not known: {problem or 'not verified'}"
    return _answers_prove_nothing(observation, terms) if observation.requests else None


def _answers_prove_nothing(observation: Observation, terms: Terms) -> str | None:
    # A server that answers 200 without a word passes every other check, whatever it has lost.
    after = observation.counts(Phase.AFTER)
    if not after.ok:
        return "nothing was answered after the recovery"
    if not observation.counts(Phase.BASELINE).has_words:
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
    conclusion: RestartConclusion,
    terms: Terms,
) -> Iterator[Finding]:
    """One for each broken promise, or why there is no evidence; then what is worth a look."""
    for promise in _in_state(promises, State.BROKEN):
        yield promise.finding()
    # After the kill the first failure is a broken promise already (judge.py).
    if not observation.was_killed and observation.failures:
        yield finding_of(observation.failures[0])
    elif conclusion.verdict is Verdict.VOID:
        yield _void(observation, conclusion)
    elif conclusion.verdict is Verdict.INCONCLUSIVE:
        yield rules.BUDGET_SPENT.finding(conclusion.reason, remedy=rules.BUDGET_SPENT.remedy)
    yield from _noticed(observation)
    yield from suspicious(observation, terms)


def _void(observation: Observation, conclusion: RestartConclusion) -> Finding:
    excerpts = [f"{result.label}: {result.problem}" for result in observation.unready_before]
    excerpts.extend(observation.counts(Phase.BASELINE).errors)
    evidence = [Evidence(excerpt=text) for text in excerpts]
    rule = rules.BASELINE_FAILED
    if observation.was_killed:
        rule = rules.PROVES_NOTHING
    return rule.finding(conclusion.reason, evidence=tuple(evidence), remedy=rule.remedy)


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
    released = observation.released
    if released is not None and released.memory_unknown:
        files = released.memory_unknown
        yield rules.MEMORY_OF_UNKNOWN_OWNER.finding(
            f"{len(files)} new files in /dev/shm are in use by nobody, the first {files[0]}",
            evidence=(Evidence(excerpt="\n".join(files[:_SHOWN])),),
            remedy=rules.MEMORY_OF_UNKNOWN_OWNER.remedy,
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
    starts: Sequence[StartRun],
    *,
    directory: Path,
    cwd: Path,
) -> Outcome:
    """What the check comes to.

    The report lies in `directory`; findings name paths below `cwd` relative to it.
    """
    observation = _with_relative_logs(observation, cwd)
    promises = judge(observation, terms)
    shared: dict[str, Any] = {
        "tables": tables(observation, terms),
        "facts": facts(observation, promises, terms),
        "attempts": tuple(_attempts(starts, directory)),
        "attachments": tuple(_attachments(starts, directory)),
    }
    if observation.ending.is_signal:
        return _interrupted(observation, shared)
    conclusion = conclude(observation, promises, terms)
    return Outcome(
        verdict=conclusion.verdict,
        summary=conclusion.reason,
        error=conclusion.error,
        findings=tuple(findings(observation, promises, conclusion, terms)),
        cases=cases(promises, reached=observation.was_killed, reason=conclusion.reason),
        **shared,
    )


def _interrupted(observation: Observation, shared: dict[str, Any]) -> Outcome:
    """A check that a signal ended: what was observed, and no verdict."""
    message = f"interrupted by {observation.ending}; {_how_stopped(observation)}"
    error = Failure(message=message, kind=signal_kind(observation.ending.name))
    return Outcome(verdict=None, summary=message, error=error, **shared)


def _how_stopped(observation: Observation) -> str:
    """A clause for the reader who wants to know whether anything still runs."""
    if observation.stopped is None or not observation.stopped.survivors:
        return "every process was stopped"
    names = [process.name for process in observation.stopped.survivors]
    return f"could not stop {', '.join(names)}"


def _with_relative_logs(observation: Observation, cwd: Path) -> Observation:
    """Paths as a person types them."""
    failures = []
    for failure in observation.failures:
        log = failure.log
        # A service that was not even started has no log.
        if log is not None:
            log = relative(log, cwd)
        failures.append(structs.replace(failure, log=log))
    return structs.replace(observation, failures=tuple(failures))


def tables(observation: Observation, terms: Terms) -> tuple[Table, ...]:
    """The requests by phase, how the restart went, and what is left on the machine."""
    left: tuple[Table, ...] = ()
    if observation.stopped is not None:
        left = leak_table(observation.stopped.left_behind)
    return (*_tables_of_requests(observation, terms), *left)


def _tables_of_requests(observation: Observation, terms: Terms) -> tuple[Table, ...]:
    if not observation.phases:
        return ()
    rows = []
    for phase, counts in observation.phases.items():
        rate = counts.answers_a_second
        if rate is not None:
            rate = round(rate, 1)
        time = seconds(counts.seconds)
        rows.append(row(phase.value, counts.ok, counts.failed, counts.hung, time, rate))
    columns = ("ok", "failed", "hung", "time", "ok/s")
    requests: tuple[Table, ...] = ()
    if observation.requests:
        requests = (Table(title="Requests", columns=columns, rows=tuple(rows)),)
    # Before the kill there is no restart to tell of.
    if not observation.was_killed:
        return requests
    return (*requests, Table(title="Restart", rows=tuple(_story(observation, terms))))


def _story(observation: Observation, terms: Terms) -> Iterator[Row]:
    at = f"at {observation.killed_at} of {observation.requests} requests"
    writes = observation.writes
    if not observation.requests and writes is not None:
        at = f"after {writes.before_kill} acknowledged writes"
    yield row("killed", f"{terms.kill} by {terms.signal} {at}")
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
    identity_changed = None
    if observation.old is not None and observation.new is not None:
        identity_changed = observation.old != observation.new
    states = {}
    for promise in promises:
        states[promise.key] = promise.state.value
    return RestartCheckFacts(
        **structs.asdict(observation),
        terms=terms,
        promises=states,
        down_s=down_s,
        identity_changed=identity_changed,
        throughput_ratio=observation.ratio,
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
        detail = _detail(promise)
        all_cases.append(
            Case(group=_GROUP, name=promise.name, outcome=outcome, message=message, detail=detail)
        )
    return tuple(all_cases)


def _detail(promise: Promise) -> str | None:
    """The excerpts of its evidence, which JUnit readers show below the message."""
    excerpts = [evidence.excerpt for evidence in promise.evidence if evidence.excerpt]
    return "\n".join(excerpts) or None


def _attempts(starts: Sequence[StartRun], directory: Path) -> Iterator[Attempt]:
    """One for each start of each service."""
    for run in starts:
        log = None
        if run.log is not None:
            log = relative(run.log, directory)
        # Being killed on purpose is no fault of a start that was ready.
        is_ok = run.ready_s is not None and not run.by_itself
        yield Attempt(
            name=f"{run.service} {run.number}",
            outcome=run.outcome,
            ok=is_ok,
            duration_s=round(run.duration_s, 3),
            log=log,
            facts={"pid": run.pid, "ready_s": run.ready_s, "peak_rss": run.peak_rss},
        )


def _attachments(starts: Sequence[StartRun], directory: Path) -> Iterator[Attachment]:
    for run in starts:
        if run.log is not None:
            title = f"log of {run.service}, start {run.number}"
            yield Attachment(path=relative(run.log, directory), title=title)
