# SPDX-License-Identifier: Apache-2.0
"""Pure. The retries of a build by what they were worth."""

from msgspec import Struct

from ci_doctor.model.facts.build import BuildFacts, RetryWorth
from ci_doctor.render.formatting import duration
from ci_doctor.render.html.build_page.axis import wall_time

_MOST_STEPS = 200
_MEANINGS = {
    RetryWorth.HID_A_FAILURE: "The next attempt passed, and nothing says that the cause lay outside the change: the step is flaky, or the change is.",
    RetryWorth.IN_VAIN: "The next attempt failed too.",
    RetryWorth.UNKNOWN: "The next attempt has no verdict.",
    RetryWorth.HELPED: "The cause lay outside the change, and the next attempt passed.",
}


class PageRetry(Struct, frozen=True, kw_only=True):
    """The retries of one worth; `took` is the wall clock of the attempts that were retried."""

    worth: str
    meaning: str
    count: int
    took: str
    steps: tuple[str, ...]
    steps_left_out: int


def page_retries(facts: BuildFacts) -> tuple[PageRetry, ...]:
    """The retries of `facts`, those that need a look first; no row for a worth that none had."""
    rows = []
    for worth in _MEANINGS:
        row = _row(facts, worth)
        if row is not None:
            rows.append(row)
    return tuple(rows)


def _row(facts: BuildFacts, worth: RetryWorth) -> PageRetry | None:
    names: dict[str, None] = {}
    times = []
    for step in facts.build_steps:
        for attempt in step.attempts:
            if attempt.retry is worth:
                names[step.name] = None
                times.append(wall_time(attempt))
    if not times:
        return None
    known = [seconds for seconds in times if seconds is not None]
    return PageRetry(
        worth=worth.value,
        meaning=_MEANINGS[worth],
        count=len(times),
        took=_took(known, len(times)),
        steps=tuple(names)[:_MOST_STEPS],
        steps_left_out=max(len(names) - _MOST_STEPS, 0),
    )


def _took(known: list[float], count: int) -> str:
    if not known:
        return "unknown"
    at_least = "at least " if len(known) < count else ""
    return at_least + duration(sum(known))
