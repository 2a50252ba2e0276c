# SPDX-License-Identifier: Apache-2.0
"""Pure. A build in words: how many steps ended how, which failed, and what to do first."""

from collections import Counter
from collections.abc import Iterable, Sequence

from ci_doctor.model.facts.build import BuildFacts, CauseFacts, RetryWorth, StepFacts
from ci_doctor.model.verdict import MISSING, WORST_FIRST, Verdict
from ci_doctor.render.formatting import amount, listed, short_line

_FINE = (Verdict.PASS, Verdict.FLAKY)
_MOST_OF_A_NAME = 100


def is_fine(step: StepFacts) -> bool:
    """True for a step that lets the build pass."""
    return step.verdict in _FINE


def counted(steps: Iterable[StepFacts]) -> tuple[tuple[str, int], ...]:
    """Each verdict of `steps`, the worst first, and how many steps have it."""
    counts = Counter(step.verdict for step in steps)
    pairs = [(verdict, counts[verdict]) for verdict in ordered(counts)]
    return tuple(pairs)


def ordered(verdicts: Iterable[str]) -> list[str]:
    """Each of `verdicts` once, the worst first."""
    return sorted(set(verdicts), key=_rank)


def _rank(verdict: str) -> tuple[int, str]:
    # A word of a later version comes first: nobody knows how bad it is.
    place = WORST_FIRST.index(verdict) if verdict in WORST_FIRST else -1
    return place, verdict


def another_run(cause: CauseFacts) -> str:
    """Whether another run helps against `cause`: `may help`, `does not help` or `unknown`."""
    if cause.may_be_retried:
        return "may help"
    if cause.class_ is None and cause.text is None:
        # A group of failures of which no cause is known says nothing about the next run.
        return "unknown"
    return "does not help"


def first_action(facts: BuildFacts) -> str:
    """What a reader of the build does first, in one or two sentences.

    A failure that another run does not help comes before a missing report, and that before failures
    that another run helps. In a build without any of them, a retry that hid a failure comes first.
    """
    failed = [step for step in facts.build_steps if not is_fine(step)]
    judged = [step for step in failed if step.verdict != MISSING]
    lasting = _dearest(facts.causes, judged, may_be_retried=False)
    if lasting is not None:
        return f"Start with {_cost(lasting)}. {_advice(lasting)}"
    unexplained = _without_cause(judged)
    if unexplained is not None:
        name = _name(unexplained.name)
        return f"Start with the log of {name}: it ended as {unexplained.verdict}, and no cause is known."
    if facts.missing:
        reports = amount(len(facts.missing), "report")
        return f"Find out why {reports} did not arrive, of {_listed(facts.missing)}: nothing is known about them."
    passing = _dearest(facts.causes, judged, may_be_retried=True)
    if passing is not None:
        steps = amount(len(judged), "failed step")
        return f"Run the {steps} again: {_cost(passing)}, outside the change."
    return _among_passes(facts)


def _advice(cause: CauseFacts) -> str:
    if another_run(cause) == "unknown":
        return "Read the log of one of them."
    return "Another run does not help."


def _among_passes(facts: BuildFacts) -> str:
    hidden = [step.name for step in facts.build_steps if _hid_a_failure(step)]
    if hidden:
        return f"Look at {_listed(hidden)}: the retry passed, and nothing says that the failure lay outside the change."
    if facts.duplicates:
        return f"Look at {_listed(facts.duplicates)}: two reports claim the same attempt."
    if all(map(is_fine, facts.build_steps)) and facts.build_steps:
        return "Nothing is left to do."
    return "Look at the steps below: they did not pass."


def _hid_a_failure(step: StepFacts) -> bool:
    return any(attempt.retry is RetryWorth.HID_A_FAILURE for attempt in step.attempts)


def _dearest(
    causes: Iterable[CauseFacts], steps: Iterable[StepFacts], *, may_be_retried: bool
) -> CauseFacts | None:
    """The dearest cause of that kind which ended the last attempt of one of `steps`."""
    last = {step.attempts[-1].cause for step in steps if step.attempts}
    for cause in causes:
        if cause.fingerprint in last and cause.may_be_retried is may_be_retried:
            return cause
    return None


def _without_cause(steps: Iterable[StepFacts]) -> StepFacts | None:
    for step in steps:
        if not step.attempts or step.attempts[-1].cause is None:
            return step
    return None


def _cost(cause: CauseFacts) -> str:
    attempts = amount(cause.jobs, "attempt")
    steps = amount(len(cause.steps), "step")
    title = _name(cause.title)
    return f"“{title}”, which ended {attempts} of {steps}"


def _listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and 3 more`."""
    shown = [_name(name) for name in names]
    if len(shown) == 2:
        return " and ".join(shown)
    return listed(shown, most=2)


def _name(text: str) -> str:
    return short_line(text, _MOST_OF_A_NAME)
