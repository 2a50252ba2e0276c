# SPDX-License-Identifier: Apache-2.0
"""What a restart must not break: the port, memory, answers, writes. Pure."""

import math
from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from ci_doctor.load.looks import FEWEST_PROMPTS
from ci_doctor.model.facts.restart_check import (
    AnswerComparison,
    Observation,
    Phase,
    Released,
    Terms,
)
from ci_doctor.model.outcome import Evidence, Finding, Rule
from ci_doctor.render.formatting import amount, duration, part_of, size
from ci_doctor.restart import rules


class State(StrEnum):
    """What became of a promise.

    `untested`: it was not wanted, or the check did not get so far.
    """

    KEPT = "kept"
    BROKEN = "broken"
    UNTESTED = "untested"


# What each promise is called, by the rule that a broken one is a finding of.
_NAMES = {
    rules.OTHER_DIED: "the other services live on",
    rules.HUNG_REQUESTS: "no request hangs",
    rules.PORT_NOT_RELEASED: "the port is released",
    rules.TREE_NOT_RELEASED: "the process tree is gone",
    rules.MEMORY_NOT_RELEASED: "memory is released",
    rules.NOT_RECOVERED: "the service recovers",
    rules.LOST_AFTER: "no request is lost after the recovery",
    rules.SLOWER: "it is as fast as before",
    rules.DIFFERENT_OUTPUTS: "answers are the same",
    rules.LOST_ANSWERS: "answers are still answers",
    rules.UNKEPT_ANSWERS: "answers survive the restart",
    rules.LOST_WRITES: "acknowledged writes are kept",
    rules.OTHER_MODEL: "it is the same model",
}


class Promise(Struct, frozen=True, kw_only=True):
    """One thing that a restart must not break.

    `rule` is what a broken one is a finding of. `message` tells how it was kept or broken, or why
    it was not tested.
    """

    rule: Rule
    state: State
    message: str
    evidence: tuple[Evidence, ...] = ()

    @property
    def name(self) -> str:
        """What it is called."""
        return _NAMES[self.rule]

    @property
    def key(self) -> str:
        """Its rule without the family: `hung-requests`."""
        return self.rule.id.partition("/")[2]


def kept(rule: Rule, message: str) -> Promise:
    """A promise that was kept."""
    return Promise(rule=rule, state=State.KEPT, message=message)


def untested(rule: Rule, why: str) -> Promise:
    """A promise that was not tested, and why."""
    return Promise(rule=rule, state=State.UNTESTED, message=why)


def broken(rule: Rule, message: str, *evidence: Evidence) -> Promise:
    """A promise that was broken."""
    return Promise(rule=rule, state=State.BROKEN, message=message, evidence=evidence)


# Processes that one sentence names: a server with a worker for each GPU has more.
_NAMED = 5
_NOT_REACHED = "the outage was not reached"


def port_released(observation: Observation, terms: Terms) -> Promise:
    """Nobody listens on its port any more."""
    released = observation.released
    if released is None:
        return untested(rules.PORT_NOT_RELEASED, _NOT_REACHED)
    if released.port is None:
        return untested(rules.PORT_NOT_RELEASED, "it listens on another machine")
    if released.port_s is None:
        limit = f"{terms.release_timeout_s:g} s after {terms.kill} had ended"
        return broken(rules.PORT_NOT_RELEASED, f"{limit}, {released.port_owner}")
    return kept(
        rules.PORT_NOT_RELEASED, f"port {released.port} was free after {duration(released.port_s)}"
    )


def tree_released(observation: Observation, terms: Terms) -> Promise:
    """It has ended by the signal, and all its processes with it."""
    released = observation.released
    if released is None:
        return untested(rules.TREE_NOT_RELEASED, _NOT_REACHED)
    # A service that had to be killed with SIGKILL breaks it too, even if nothing outlived that.
    if released.tree_s is None or observation.refused:
        evidence = [Evidence(excerpt=command) for command in released.commands[:_NAMED]]
        return broken(rules.TREE_NOT_RELEASED, _left(observation, released, terms), *evidence)
    return kept(rules.TREE_NOT_RELEASED, f"no process was left after {duration(released.tree_s)}")


def _left(observation: Observation, released: Released, terms: Terms) -> str:
    limit = f"{terms.release_timeout_s:g} s"
    if observation.refused and not released.processes:
        return f"{terms.kill} itself still lived {limit} after {terms.signal}, and was killed"
    names = [f"{process.name} (pid {process.pid})" for process in released.processes[:_NAMED]]
    listed = ", ".join(names)
    unnamed = len(released.processes) - len(names)
    if unnamed:
        listed += f" and {unnamed} more"
    return f"{listed} outlived {terms.kill} by {limit}, and had to be killed"


def memory_released(observation: Observation, terms: Terms) -> Promise:
    """It has left no memory behind."""
    released = observation.released
    if released is None:
        return untested(rules.MEMORY_NOT_RELEASED, _NOT_REACHED)
    if released.memory_left:
        first, *others = released.memory_left
        limit = f"{terms.release_timeout_s:g} s after {terms.kill} had ended"
        evidence = [Evidence(excerpt=sentence) for sentence in others]
        return broken(rules.MEMORY_NOT_RELEASED, f"{limit}, {first}", *evidence)
    if released.memory_taken_back:
        first, *others = released.memory_taken_back
        more = f" and {len(others)} more" if others else ""
        return kept(
            rules.MEMORY_NOT_RELEASED, f"the next start took back what was left: {first}{more}"
        )
    # While processes live, memory is in use and not left behind: it was never looked at.
    if released.memory_s is None:
        return untested(rules.MEMORY_NOT_RELEASED, "its processes had to be killed first")
    gone = f"{size(released.rss)} went with its processes"
    if not released.memory_seen:
        return kept(rules.MEMORY_NOT_RELEASED, gone)
    places = ", ".join(released.memory_seen)
    return kept(
        rules.MEMORY_NOT_RELEASED, f"{gone}; nothing is left in what was looked at: {places}"
    )


_IN_WORDS = {Phase.KILL: "the load that the kill cut", Phase.AFTER: "the load after it"}


def no_request_hangs(observation: Observation, terms: Terms) -> Promise:
    """Every request since the kill has succeeded or failed in time."""
    # A hung request of the baseline ends the check before the kill, as a bad baseline.
    phases = observation.since_kill
    limit = f"within {terms.request_timeout_s:g} s"
    hung = []
    sent = 0
    for phase, counts in phases.items():
        sent += counts.sent
        if counts.hung:
            hung.append(f"{counts.hung} of {counts.sent} sent in {_in_words(phase)}")
    if hung:
        message = f"{observation.hung} requests neither succeeded nor failed {limit}"
        return broken(rules.HUNG_REQUESTS, f"{message}: {', '.join(hung)}")
    if not sent:
        return untested(rules.HUNG_REQUESTS, "no request was sent after the baseline")
    return kept(rules.HUNG_REQUESTS, f"all of {sent} requests succeeded or failed {limit}")


def _in_words(phase: Phase) -> str:
    return _IN_WORDS.get(phase, f"the {phase}")


def nothing_lost(observation: Observation) -> Promise:
    """After the recovery no request failed."""
    # Requests may fail until then: a dead server refuses connections, and clients must expect it.
    counts = observation.counts(Phase.AFTER)
    if counts.failed:
        message = f"{counts.failed} of {counts.sent} requests failed after the recovery"
        evidence = [Evidence(excerpt=error) for error in counts.errors]
        return broken(rules.LOST_AFTER, message, *evidence)
    if not counts.sent:
        return untested(rules.LOST_AFTER, "no request was sent after the recovery")
    were = part_of(counts.ok, counts.sent, "request", past=True)
    return kept(rules.LOST_AFTER, f"{were} answered")


def as_fast(observation: Observation, terms: Terms) -> Promise:
    """The load is answered as fast as before."""
    if not terms.throughput:
        return untested(rules.SLOWER, "no throughput was wanted")
    if observation.ratio is None:
        return untested(rules.SLOWER, "it was not measured")
    before = observation.counts(Phase.BASELINE)
    after = observation.counts(Phase.AFTER)
    rate_before = before.rate or 0.0
    rate_after = after.rate or 0.0
    message = (
        f"{rate_after:.1f} requests a second after the restart, {rate_before:.1f} before "
        f"({observation.ratio:.2f} of it"
    )
    if observation.ratio >= terms.throughput:
        return kept(rules.SLOWER, f"{message})")
    # Requests that fail or hang are reported already, and are the reason.
    if after.ok < after.sent:
        return untested(rules.SLOWER, f"{message})")
    if is_hindered(observation, terms):
        return untested(rules.SLOWER, f"{message}, on a busy machine)")
    return broken(rules.SLOWER, f"{message}, and {terms.throughput:g} is the least)")


def is_hindered(observation: Observation, terms: Terms) -> bool:
    """Whether the load was slower, and would be fast enough without the waits for a CPU."""
    before = observation.counts(Phase.BASELINE).rate or 0.0
    after = observation.counts(Phase.AFTER)
    least = terms.throughput * before
    return (after.rate or 0.0) < least <= (after.free_rate or 0.0)


def same_outputs(observation: Observation, terms: Terms) -> Promise:
    """Every answer is one that the baseline gave."""
    if not terms.same_outputs:
        return untested(rules.DIFFERENT_OUTPUTS, "the same answers were not wanted")
    if observation.different_count:
        message = (
            f"{observation.different_count} answers since the kill are not those of the baseline"
        )
        return broken(rules.DIFFERENT_OUTPUTS, message, *_differences(observation))
    if len(observation.unstable) == observation.requests:
        return untested(rules.DIFFERENT_OUTPUTS, "the baseline never answers the same twice")
    # Answers on the way count too: each must be right, whatever else was going on.
    answered = 0
    for counts in observation.since_kill.values():
        answered += counts.ok
    if not answered:
        return untested(rules.DIFFERENT_OUTPUTS, "nothing was answered after the baseline")
    return kept(
        rules.DIFFERENT_OUTPUTS, f"{answered} answers since the kill are those of the baseline"
    )


def _differences(observation: Observation) -> Iterator[Evidence]:
    for each in observation.different:
        title = f"request {each.id}, {_in_words(each.phase)}"
        # Padded so that both texts begin in the same column and can be compared by eye.
        yield Evidence(excerpt=f"{title}\n  before: {each.before}\n  now:    {each.after}")


def writes_kept(observation: Observation) -> Promise:
    """What the load printed as acknowledged is still there."""
    writes = observation.writes
    if writes is None:
        return untested(rules.LOST_WRITES, "the verifier was not reached")
    if not writes.verified:
        return untested(rules.LOST_WRITES, writes.problem or "too few writes were acknowledged")
    if writes.lost_count:
        names = f"the verifier names {amount(writes.lost_count, 'lost write')}"
        more = writes.lost_count - len(writes.lost)
        shown = [*writes.lost, *([f"… and {more} more"] if more else [])]
        message = f"{names} of {writes.acknowledged} acknowledged ones"
        return broken(rules.LOST_WRITES, message, Evidence(excerpt="\n".join(shown)))
    before = f"{writes.before_kill} of them before the kill"
    return kept(rules.LOST_WRITES, f"the verifier misses none of {writes.acknowledged}, {before}")


# Answers that vary may be the same, or short, by chance: it takes a few requests to rule that out.
_FEWEST_VARYING = 4
_CHANCE = 0.05


def real_answers(observation: Observation) -> Promise:
    """What was an answer before is one after."""
    answers = observation.answers
    if answers.blank_count:
        evidence = [Evidence(excerpt=f"{each.id}, sent in {each.phase}") for each in answers.blank]
        message = f"{answers.blank_count} answers since the kill hold no word"
        return broken(
            rules.LOST_ANSWERS, f"{message}, to requests that always got words before", *evidence
        )
    if not observation.counts(Phase.AFTER).ok:
        return untested(rules.LOST_ANSWERS, "nothing was answered after the recovery")
    if not observation.counts(Phase.BASELINE).has_words:
        return untested(rules.LOST_ANSWERS, "no answer held a word before the kill")
    # Half of the requests: prompts that ask for yes or no have few answers at any time.
    were_many = 2 * answers.different_before >= answers.compared
    if answers.different_after == 1 and were_many and _is_enough(answers, 2):
        message = f"after the restart all {answers.compared} requests get one and the same answer"
        return broken(
            rules.LOST_ANSWERS, f"{message}, {answers.different_before} different ones before"
        )
    if answers.shorter == answers.compared and _is_enough(answers, 1):
        message = f"the answers to all {answers.compared} requests have less than half of"
        return broken(rules.LOST_ANSWERS, f"{message} their length before the kill")
    return kept(
        rules.LOST_ANSWERS, f"{answers.compared} requests that got words before get words after"
    )


def _is_enough(answers: AnswerComparison, fewest_steady: int) -> bool:
    """Whether there are enough requests to rule chance out."""
    if answers.steady == answers.compared:
        return answers.compared >= fewest_steady
    return answers.compared >= _FEWEST_VARYING


def kept_answers(observation: Observation, terms: Terms) -> Promise:
    """A request that got one text in every start before the kill gets it after it."""
    answers = observation.answers
    if not answers.compared:
        return untested(rules.UNKEPT_ANSWERS, "nothing was answered after the recovery")
    if answers.controls < terms.control_starts:
        made = f"{answers.controls} of {terms.control_starts} control starts were made"
        return untested(rules.UNKEPT_ANSWERS, f"{made}, because the budget was short")
    starts = answers.controls + 1
    if answers.unkept_count and is_beyond_chance(answers):
        evidence = [
            Evidence(excerpt=f"request {each.id}\n  before: {each.before}\n  now:    {each.after}")
            for each in answers.unkept
        ]
        message = (
            f"{answers.unkept_count} of {answers.agreed} requests that got one text in each of "
            f"{starts} starts before the kill got another one in every pass after it"
        )
        return broken(rules.UNKEPT_ANSWERS, message, *evidence)
    why = None
    if answers.unkept_count:
        noise = f"{answers.noisy} requests varied before the kill"
        why = f"{noise}, and {answers.unkept_count} changed by chance or not"
    elif not answers.agreed:
        why = f"no request got one text in {starts} starts"
    if why is not None:
        return untested(rules.UNKEPT_ANSWERS, why)
    return kept(
        rules.UNKEPT_ANSWERS,
        f"{answers.agreed} requests got one text in {starts} starts, and none lost it",
    )


def is_beyond_chance(answers: AnswerComparison) -> bool:
    """Whether so many unkept answers come by chance in 5 % of the checks at most (Poisson)."""
    below = 0.0
    term = math.exp(-answers.chance)
    for count in range(answers.unkept_count):
        below += term
        term *= answers.chance / (count + 1)
    return 1 - below <= _CHANCE


def same_model(observation: Observation) -> Promise:
    """The answers name no model that they did not name before."""
    before = observation.answers.models_before
    after = observation.answers.models_after
    if not after:
        return untested(rules.OTHER_MODEL, "no answer after the recovery names its model")
    others = [model for model in after if model not in before]
    if others:
        message = f"after the restart answers are of {', '.join(others)}"
        return broken(rules.OTHER_MODEL, f"{message}, and were of {', '.join(before)} before")
    return kept(rules.OTHER_MODEL, f"answers are of {', '.join(after)}, as before")


def suspicious(observation: Observation, terms: Terms) -> Iterator[Finding]:
    """Warnings that break no promise."""
    if as_fast(observation, terms).state is State.UNTESTED and is_hindered(observation, terms):
        message = (
            f"{observation.ratio or 0.0:.2f} of the requests a second of before were answered after the restart, "
            "while threads of the services waited for a CPU: whether the service is slower is open"
        )
        yield rules.BUSY_MACHINE.finding(message, remedy=rules.BUSY_MACHINE.remedy)
    answers = observation.answers
    if not answers.requests:
        return
    prompts = min(observation.prompts, answers.requests)
    if answers.different_before == 1 and prompts >= FEWEST_PROMPTS:
        message = (
            f"all {answers.requests} requests, of {prompts} different prompts, got one and the same "
            "answer before the kill"
        )
        yield rules.ONE_ANSWER.finding(message, remedy=rules.ONE_ANSWER.remedy)
    blank = observation.counts(Phase.BASELINE).blank
    if blank and not terms.by_command:
        sent = observation.counts(Phase.BASELINE).ok
        message = f"{blank} of {sent} answers before the kill hold no word"
        yield rules.BLANK_ANSWERS.finding(message, remedy=rules.BLANK_ANSWERS.remedy)
    if answers.restless:
        message = (
            f"{answers.restless} of {answers.steady} requests that got one text in every pass of the "
            "baseline got another one in a control start, which no kill had preceded"
        )
        yield rules.STARTS_DIFFER.finding(message, remedy=rules.STARTS_DIFFER.remedy)
    is_told = kept_answers(observation, terms).state is State.BROKEN
    if answers.changed and not terms.same_outputs and not is_told:
        message = (
            f"{answers.changed} of {answers.steady} requests that got one text in every pass "
            "before the kill got another one after it"
        )
        yield rules.CHANGED_ANSWERS.finding(message, remedy=rules.CHANGED_ANSWERS.remedy)
