# SPDX-License-Identifier: Apache-2.0
"""Pure. A build in words: how many steps ended how, which failed, and what to do first."""

from collections import Counter
from collections.abc import Iterable, Sequence

from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.verdict import (
    CANCELLED,
    MISSING,
    SOFT_FAILED,
    Verdict,
    is_green,
    ordered,
    rank,
)
from ci_doctor.render.formatting import amount, listed, short_line

_MOST_OF_A_NAME = 100


def ending(job: JobFacts, verdict: str | None = None) -> str:
    """How `job` ended: its verdict, or that of its step; `cancelled` or `soft-failed` before one."""
    word = verdict or job.verdict
    if is_green(word):
        return word
    if job.cancelled:
        return CANCELLED
    return SOFT_FAILED if job.soft_failed else word


def step_ending(step: StepFacts) -> str:
    """How the last attempt of `step` ended."""
    return ending(step.attempts[-1], step.verdict) if step.attempts else step.verdict


def is_fine(step: StepFacts) -> bool:
    """True for a step that lets the build pass."""
    word = step_ending(step)
    return is_green(word) or word == SOFT_FAILED


def counted(steps: Iterable[StepFacts]) -> tuple[tuple[str, int], ...]:
    """Each ending of `steps`, the worst first, and how many steps have it."""
    counts = Counter(map(step_ending, steps))
    pairs = [(word, counts[word]) for word in ordered(counts)]
    return tuple(pairs)


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
    that another run helps. In a build without any of them, a retry that hid a failure comes first,
    and then jobs that somebody cancelled: they are no cause of anything.
    """
    failed = [step for step in facts.build_steps if not is_fine(step)]
    judged = [step for step in failed if step_ending(step) not in {MISSING, CANCELLED}]
    lasting = _first(facts.causes, judged, may_be_retried=False)
    if lasting is not None:
        return f"Start with {_cost(lasting)}. {_advice(lasting)}"
    unexplained = _without_cause(judged)
    if unexplained is not None:
        name = _name(unexplained.name)
        return f"Start with the log of {name}: it ended as {unexplained.verdict}, and no cause is known."
    cancelled = [step.name for step in failed if step_ending(step) == CANCELLED]
    missing = [name for name in facts.missing if name not in cancelled]
    if missing:
        reports = amount(len(missing), "report")
        return f"Find out why {reports} did not arrive, of {_listed(missing)}: nothing is known about them."
    passing = _first(facts.causes, judged, may_be_retried=True)
    if passing is not None:
        steps = amount(len(judged), "failed step")
        return f"Run the {steps} again: {_cost(passing)}, outside the change."
    return _among_passes(facts, cancelled)


def _advice(cause: CauseFacts) -> str:
    if another_run(cause) == "unknown":
        return "Read the log of one of them."
    return "Another run does not help."


def _among_passes(facts: BuildFacts, cancelled: Sequence[str]) -> str:
    hidden = [step.name for step in facts.build_steps if _hid_a_failure(step)]
    if hidden:
        return f"Look at {_listed(hidden)}: the retry passed, and nothing says that the failure lay outside the change."
    if facts.duplicates:
        return f"Look at {_listed(facts.duplicates)}: two reports claim the same attempt."
    if cancelled:
        return f"Only cancelled jobs are left, of {_listed(cancelled)}. Run them again if their results count."
    soft = [step.name for step in facts.build_steps if step_ending(step) == SOFT_FAILED]
    if soft:
        return f"Nothing stops the build. Look at {_listed(soft)}, which may fail (`soft_fail`)."
    if all(map(is_fine, facts.build_steps)) and facts.build_steps:
        return "Nothing is left to do."
    return "Look at the steps below: they did not pass."


def _hid_a_failure(step: StepFacts) -> bool:
    return any(attempt.retry is RetryWorth.HID_A_FAILURE for attempt in step.attempts)


def _first(
    causes: Iterable[CauseFacts], steps: Sequence[StepFacts], *, may_be_retried: bool
) -> CauseFacts | None:
    """The cause of that kind which ended the last attempt of the worst of `steps`.

    A regression is proven, whatever its cause says of another run.
    """
    worst: dict[str, int] = {}
    for step in steps:
        cause = step.attempts[-1].cause if step.attempts else None
        if cause is not None:
            worst[cause] = min(worst.get(cause, rank(step.verdict)), rank(step.verdict))
    regression = rank(Verdict.REGRESSION)
    known = [each for each in causes if each.fingerprint in worst and not each.cancelled]
    of_the_kind = [
        each
        for each in known
        if (each.may_be_retried and worst[each.fingerprint] != regression) is may_be_retried
    ]
    return min(of_the_kind, key=lambda each: worst[each.fingerprint], default=None)


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


def remedies(facts: BuildFacts, most: int) -> list[tuple[str, str]]:
    """Titles of the first causes and what to do about each; not of jobs that were cancelled."""
    known = [(each.title, each.advice) for each in facts.causes if not each.cancelled]
    return [(title, remedy) for title, remedy in known if remedy][:most]


def _listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and 3 more`."""
    shown = [_name(name) for name in names]
    if len(shown) == 2:
        return " and ".join(shown)
    return listed(shown, most=2)


def _name(text: str) -> str:
    return short_line(text, _MOST_OF_A_NAME)
