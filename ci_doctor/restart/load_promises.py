# SPDX-License-Identifier: Apache-2.0
"""What clients may expect of a restart: nothing hangs or is lost or changes. Pure."""

from collections.abc import Iterator

from ci_doctor.model.finding import Evidence
from ci_doctor.restart import rules
from ci_doctor.restart.observed import Observation, Phase
from ci_doctor.restart.promise import Promise, Terms, broken, kept, untested

_IN_WORDS = {Phase.KILL: "the load that the kill cut", Phase.AFTER: "the load after it"}


def no_request_hangs(observation: Observation, terms: Terms) -> Promise:
    """Every request since the kill has succeeded or failed in time."""
    name = "no request hangs"
    rule = rules.HUNG_REQUESTS
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
        return broken(name, rule, f"{message}: {', '.join(hung)}")
    if not sent:
        return untested(name, rule, "no request was sent after the baseline")
    return kept(name, rule, f"all of {sent} requests succeeded or failed {limit}")


def _in_words(phase: Phase) -> str:
    return _IN_WORDS.get(phase, f"the {phase}")


def nothing_lost(observation: Observation) -> Promise:
    """After the recovery no request failed."""
    name = "no request is lost after the recovery"
    rule = rules.LOST_AFTER
    # Requests may fail until then: a dead server refuses connections, and clients must expect it.
    counts = observation.counts(Phase.AFTER)
    if counts.failed:
        message = f"{counts.failed} of {counts.sent} requests failed after the recovery"
        evidence = [Evidence(excerpt=error) for error in counts.errors]
        return broken(name, rule, message, *evidence)
    if not counts.sent:
        return untested(name, rule, "no request was sent after the recovery")
    return kept(name, rule, f"{counts.ok} of {counts.sent} requests were answered")


def as_fast(observation: Observation, terms: Terms) -> Promise:
    """The load is answered as fast as before."""
    name = "it is as fast as before"
    rule = rules.SLOWER
    if not terms.throughput:
        return untested(name, rule, "no throughput was wanted")
    if observation.ratio is None:
        return untested(name, rule, "it was not measured")
    before = observation.counts(Phase.BASELINE)
    after = observation.counts(Phase.AFTER)
    rate_before = before.rate or 0.0
    rate_after = after.rate or 0.0
    message = (
        f"{rate_after:.1f} requests a second after the restart, {rate_before:.1f} before "
        f"({observation.ratio:.2f} of it"
    )
    if observation.ratio >= terms.throughput:
        return kept(name, rule, f"{message})")
    # Requests that fail or hang are reported already, and are the reason.
    if after.ok < after.sent:
        return untested(name, rule, f"{message})")
    return broken(name, rule, f"{message}, and {terms.throughput:g} is the least)")


def same_outputs(observation: Observation, terms: Terms) -> Promise:
    """Every answer is one that the baseline gave."""
    name = "answers are the same"
    rule = rules.DIFFERENT_OUTPUTS
    if not terms.same_outputs:
        return untested(name, rule, "the same answers were not wanted")
    if observation.different_count:
        message = (
            f"{observation.different_count} answers since the kill are not those of the baseline"
        )
        return broken(name, rule, message, *_differences(observation))
    if len(observation.unstable) == observation.requests:
        return untested(name, rule, "the baseline never answers the same twice")
    # Answers on the way count too: each must be right, whatever else was going on.
    answered = 0
    for counts in observation.since_kill.values():
        answered += counts.ok
    if not answered:
        return untested(name, rule, "nothing was answered after the baseline")
    return kept(name, rule, f"{answered} answers since the kill are those of the baseline")


def _differences(observation: Observation) -> Iterator[Evidence]:
    for each in observation.different:
        title = f"request {each.id}, {_in_words(each.phase)}"
        # Padded so that both texts begin in the same column and can be compared by eye.
        yield Evidence(excerpt=f"{title}\n  before: {each.before}\n  now:    {each.after}")


def writes_kept(observation: Observation) -> Promise:
    """What the load printed as acknowledged is still there."""
    name = "acknowledged writes are kept"
    rule = rules.LOST_WRITES
    writes = observation.writes
    if writes is None:
        return untested(name, rule, "the verifier was not reached")
    if not writes.verified:
        return untested(name, rule, writes.problem or "too few writes were acknowledged")
    if writes.lost_count:
        message = f"the verifier names {writes.lost_count} lost writes of {writes.acknowledged}"
        evidence = [Evidence(excerpt=line) for line in writes.lost]
        return broken(name, rule, f"{message} acknowledged ones", *evidence)
    before = f"{writes.before_kill} of them before the kill"
    return kept(name, rule, f"the verifier misses none of {writes.acknowledged}, {before}")
