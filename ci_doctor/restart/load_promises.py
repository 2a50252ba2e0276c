# SPDX-License-Identifier: Apache-2.0
"""What clients may expect of a restart: no request hangs, none is lost after it, answers as fast and the same. Pure."""

from collections.abc import Iterator

from ci_doctor.model.finding import Evidence
from ci_doctor.restart.observed import Counts, Observation, Phase
from ci_doctor.restart.promise import Promise, State, Terms, promise, untested


def no_request_hangs(seen: Observation, terms: Terms) -> Promise:
    """Every request since the kill has succeeded or failed in time."""
    name, rule = "no request hangs", "hung-requests"
    after_baseline = [
        (phase, counts) for phase, counts in seen.phases.items() if phase is not Phase.BASELINE
    ]
    hung = [(phase, counts) for phase, counts in after_baseline if counts.hung]
    if hung:
        told = ", ".join(
            f"{counts.hung} of {counts.sent} sent in {_in_words(phase)}" for phase, counts in hung
        )
        return promise(
            name,
            rule,
            State.BROKEN,
            f"{seen.hung} requests neither succeeded nor failed within {terms.request_timeout_s:g} s: {told}",
            remedy=f"give each call to {terms.kill} a deadline of its own, and fail what waits for it when it is gone",
        )
    if not after_baseline:
        return untested(name, rule, "no request was sent after the baseline")
    sent = sum(counts.sent for _, counts in after_baseline)
    return promise(
        name,
        rule,
        State.KEPT,
        f"all of {sent} requests succeeded or failed within {terms.request_timeout_s:g} s",
    )


def _in_words(phase: Phase) -> str:
    return {Phase.KILL: "the load that the kill cut", Phase.AFTER: "the load after it"}.get(
        phase, f"the {phase}"
    )


def nothing_lost(seen: Observation) -> Promise:
    """After the recovery no request failed."""
    name, rule, counts = (
        "no request is lost after the recovery",
        "lost-after",
        seen.phases.get(Phase.AFTER, Counts()),
    )
    if counts.failed:
        return promise(
            name,
            rule,
            State.BROKEN,
            f"{counts.failed} of {counts.sent} requests failed after the recovery",
            *(Evidence(excerpt=error) for error in counts.errors),
            remedy="see what still uses the old connection, registration or address",
        )
    if not counts.sent:
        return untested(name, rule, "no request was sent after the recovery")
    return promise(name, rule, State.KEPT, f"{counts.ok} of {counts.sent} requests were answered")


def as_fast(seen: Observation, terms: Terms) -> Promise:
    """The load is answered as fast as before."""
    name, rule, ratio = "it is as fast as before", "slower", seen.ratio
    if ratio is None or not terms.throughput:
        return untested(
            name,
            rule,
            "no throughput was asked for" if not terms.throughput else "it was not measured",
        )
    before, after = (seen.phases[phase].rate or 0.0 for phase in (Phase.BASELINE, Phase.AFTER))
    told = (
        f"{after:.1f} requests a second after the restart, {before:.1f} before ({ratio:.2f} of it"
    )
    # Where requests fail or hang, that is told already, and is the reason.
    if ratio < terms.throughput and seen.phases[Phase.AFTER].ok == seen.phases[Phase.AFTER].sent:
        return promise(
            name,
            rule,
            State.BROKEN,
            f"{told}, and {terms.throughput:g} is the least)",
            remedy="see whether every worker is back, and whether caches have to fill again before it counts",
        )
    return promise(
        name, rule, State.KEPT if ratio >= terms.throughput else State.UNTESTED, f"{told})"
    )


def same_outputs(seen: Observation, terms: Terms) -> Promise:
    """Every answer is one that the baseline gave."""
    name, rule = "answers are the same", "different-outputs"
    if not terms.same_outputs:
        return untested(name, rule, "the same answers were not asked for")
    if seen.different_count:
        return promise(
            name,
            rule,
            State.BROKEN,
            f"{seen.different_count} answers since the kill are not those of the baseline",
            *_differences(seen),
            remedy="look at what the second start, or what stood in for it, does otherwise",
        )
    if len(seen.unstable) == seen.asked:
        return untested(name, rule, "the baseline never answers the same twice")
    answered = sum(
        counts.ok for phase, counts in seen.phases.items() if phase is not Phase.BASELINE
    )
    if not answered:
        return untested(name, rule, "nothing was answered after the baseline")
    return promise(
        name, rule, State.KEPT, f"{answered} answers since the kill are those of the baseline"
    )


def _differences(seen: Observation) -> Iterator[Evidence]:
    for each in seen.different:
        yield Evidence(
            excerpt=f"request {each.id}, {_in_words(each.phase)}\n  before: {each.before}\n  now:    {each.after}"
        )
