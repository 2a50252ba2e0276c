# SPDX-License-Identifier: Apache-2.0
"""From what was observed to an outcome: tables, facts, cases, attempts. Pure."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import convert, structs, to_builtins

from ci_doctor.model.facts.restart_check import RestartCheckFacts
from ci_doctor.model.outcome import (
    Attachment,
    Attempt,
    Case,
    CaseOutcome,
    Failure,
    Outcome,
    signal_kind,
)
from ci_doctor.model.table import Row, Table, row, seconds, share, size
from ci_doctor.restart.conclude import conclude, findings
from ci_doctor.restart.judge import judge
from ci_doctor.restart.observed import Observation
from ci_doctor.restart.promise import Promise, State, Terms
from ci_doctor.restart.starts import StartRun
from ci_doctor.services.leaks.findings import leak_table
from ci_doctor.services.paths import relative

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
    # The facts are the observation field by field, and `convert` refuses one that does not fit.
    plain = to_builtins(observation)
    plain["terms"] = to_builtins(terms)
    plain["promises"] = states
    plain["down_s"] = down_s
    plain["identity_changed"] = identity_changed
    plain["throughput_ratio"] = observation.ratio
    return convert(plain, RestartCheckFacts)


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
