# SPDX-License-Identifier: Apache-2.0
"""From what was seen to what was promised and kept, promise by promise. Pure."""

from ci_doctor.model.finding import Evidence
from ci_doctor.restart.load_promises import as_fast, no_request_hangs, nothing_lost, same_outputs
from ci_doctor.restart.observed import Observation
from ci_doctor.restart.promise import Promise, State, Terms, promise, seconds, untested
from ci_doctor.restart.release_promises import memory_released, port_released, tree_released
from ci_doctor.services.findings import finding_of
from ci_doctor.services.outcome import ServiceFailure


def judge(seen: Observation, terms: Terms) -> tuple[Promise, ...]:
    """Every promise, in the order in which a restart can break them."""
    return (
        _others_live(seen, terms),
        no_request_hangs(seen, terms),
        port_released(seen, terms),
        tree_released(seen, terms),
        memory_released(seen, terms),
        _recovered(seen, terms),
        _identity_changed(seen, terms),
        nothing_lost(seen),
        as_fast(seen, terms),
        same_outputs(seen, terms),
    )


def was_killed(seen: Observation) -> bool:
    """Whether the signal was sent, after a load that was answered whole."""
    return seen.killed_at is not None


def _failed(seen: Observation, kill: str, *, own: bool) -> ServiceFailure | None:
    """The first service that failed after the kill and is (`own`) or is not the killed one."""
    if not was_killed(seen):
        return None
    return next((failure for failure in seen.failures if (failure.service == kill) is own), None)


def _others_live(seen: Observation, terms: Terms) -> Promise:
    name, rule = "the other services live on", "other-died"
    failure = _failed(seen, terms.kill, own=False)
    if failure is not None:
        return promise(
            name,
            rule,
            State.BROKEN,
            f"{failure.service} did not survive the restart of {terms.kill}: {failure.message}",
            *finding_of(failure).evidence,
            remedy=f"let {failure.service} live without {terms.kill}, and find it again when it is back",
        )
    if seen.released is None:
        return untested(name, rule, "the outage was not reached")
    return promise(name, rule, State.KEPT, "no other service ended")


def _recovered(seen: Observation, terms: Terms) -> Promise:
    name, rule = "the service recovers", "not-recovered"
    broken = _why_not_recovered(seen, terms)
    if broken is not None:
        message, evidence = broken
        return promise(
            name,
            rule,
            State.BROKEN,
            message,
            *evidence,
            remedy=f"read the log of the second start of {terms.kill}; raise `recovery_timeout` only if it made progress",
        )
    if seen.recovered_s is None or seen.ready_s is None:
        return untested(name, rule, "it was not started again")
    return promise(
        name,
        rule,
        State.KEPT,
        f"ready {seconds(seen.ready_s)} and recovered {seconds(seen.recovered_s)} after the relaunch",
    )


def _why_not_recovered(seen: Observation, terms: Terms) -> tuple[str, tuple[Evidence, ...]] | None:
    failure = _failed(seen, terms.kill, own=True)
    if failure is not None:
        return f"{terms.kill} did not come back: {failure.message}", finding_of(failure).evidence
    if seen.not_ready is not None:
        return (
            f"{terms.kill} was not ready {terms.recovery_timeout_s:g} s after its relaunch: {seen.not_ready}",
            (),
        )
    missing = [held for held in seen.conditions if held.after_s is None]
    if missing:
        told = f"`{missing[0].label}` did not hold {terms.recovery_timeout_s:g} s after the relaunch: {missing[0].seen}"
        return told, tuple(Evidence(excerpt=f"{held.label}: {held.seen}") for held in missing[1:])
    if seen.no_longer_ready is not None:
        return f"after the last load {seen.no_longer_ready}", ()
    return None


def _identity_changed(seen: Observation, terms: Terms) -> Promise:
    name, rule = "it is another process", "same-identity"
    if seen.old is None or seen.new is None:
        return untested(name, rule, "it was not started again")
    if seen.old == seen.new:
        return promise(
            name,
            rule,
            State.BROKEN,
            f"{terms.kill} is the same process as before the kill (pid {seen.old.pid})",
            remedy="see what the service's command starts: what was killed is not what serves",
        )
    return promise(name, rule, State.KEPT, f"pid {seen.old.pid} became pid {seen.new.pid}")
