# SPDX-License-Identifier: Apache-2.0
"""From the promises to a verdict, its reason and its findings. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import Failure
from ci_doctor.model.verdict import Verdict
from ci_doctor.restart import rules
from ci_doctor.restart.answer_promises import suspicious
from ci_doctor.restart.observed import Observation, Phase, RestartEnding
from ci_doctor.restart.promise import Promise, State, Terms
from ci_doctor.services.findings import finding_of, stop_findings

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
