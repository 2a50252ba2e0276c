# SPDX-License-Identifier: Apache-2.0
"""From what was observed to what was promised and kept, promise by promise. Pure."""

from collections.abc import Sequence

from ci_doctor.model.finding import Evidence
from ci_doctor.model.service import ServiceFailure
from ci_doctor.render.formatting import duration
from ci_doctor.restart import rules
from ci_doctor.restart.answer_promises import kept_answers, real_answers, same_model
from ci_doctor.restart.load_promises import (
    as_fast,
    no_request_hangs,
    nothing_lost,
    same_outputs,
    writes_kept,
)
from ci_doctor.restart.observed import ConditionResult, Observation
from ci_doctor.restart.promise import Promise, Terms, broken, kept, untested
from ci_doctor.restart.release_promises import memory_released, port_released, tree_released
from ci_doctor.services.findings import evidence_of


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
