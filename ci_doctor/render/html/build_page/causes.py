# SPDX-License-Identifier: Apache-2.0
"""Pure. The causes of a build as rows: what each is, where it struck, and what it cost."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.model.facts.build import BuildFacts, CauseFacts
from ci_doctor.render.build_words import another_run
from ci_doctor.render.formatting import duration
from ci_doctor.render.html.build_page.axis import known, percent

_UNKNOWN = "unknown"
_MOST_CAUSES = 100
_MOST_STEPS = 200  # names of steps of one cause
_FEW_STEPS = 4  # shown unfolded
_MOST_AGENTS = 3
_HOUR = 3600


class PageCause(Struct, frozen=True, kw_only=True):
    """One row. `share` is its wall clock beside that of the dearest cause."""

    number: int
    about: CauseFacts
    first_steps: tuple[str, ...]
    more_steps: tuple[str, ...]
    steps_left_out: int
    agents: tuple[tuple[str, int], ...]
    agents_left_out: int
    took: str
    gpu_hours: str
    share: str
    another_run: str


class PageCauses(Struct, frozen=True, kw_only=True):
    """All rows, and the row's number for each fingerprint that has one."""

    rows: tuple[PageCause, ...]
    left_out: int
    numbers: Mapping[str, int]


def page_causes(facts: BuildFacts) -> PageCauses:
    """The causes of `facts`, in their order."""
    shown = facts.causes[:_MOST_CAUSES]
    agents = _agents(facts)
    most = max((known(cause.seconds) or 0.0 for cause in shown), default=0.0)
    rows = []
    for number, cause in enumerate(shown, start=1):
        share = (known(cause.seconds) or 0.0) / most if most > 0 else 0.0
        struck = agents.get(cause.fingerprint, Counter())
        rows.append(_row(cause, number, share, struck))
    numbers = {row.about.fingerprint: row.number for row in rows}
    return PageCauses(rows=tuple(rows), left_out=len(facts.causes) - len(rows), numbers=numbers)


def _row(cause: CauseFacts, number: int, share: float, agents: Counter[str]) -> PageCause:
    names = cause.steps[:_MOST_STEPS]
    return PageCause(
        number=number,
        about=cause,
        first_steps=names[:_FEW_STEPS],
        more_steps=names[_FEW_STEPS:],
        steps_left_out=len(cause.steps) - len(names),
        agents=tuple(agents.most_common(_MOST_AGENTS)),
        agents_left_out=max(len(agents) - _MOST_AGENTS, 0),
        took=_took(cause.seconds),
        gpu_hours=hours(cause.gpu_seconds),
        share=percent(100 * share),
        another_run=another_run(cause),
    )


def _agents(facts: BuildFacts) -> dict[str, Counter[str]]:
    """For each cause the agents on which it ended an attempt, and how often."""
    agents: dict[str, Counter[str]] = {}
    for step in facts.build_steps:
        for attempt in step.attempts:
            if attempt.cause is not None and attempt.agent is not None:
                agents.setdefault(attempt.cause, Counter())[attempt.agent] += 1
    return agents


def _took(seconds: float | None) -> str:
    length = known(seconds)
    return _UNKNOWN if length is None else duration(length)


def hours(gpu_seconds: float | None) -> str:
    """GPU seconds as hours with one digit: `12.4 h`."""
    length = known(gpu_seconds)
    if length is None:
        return _UNKNOWN
    if 0 < length < _HOUR / 20:
        return "< 0.1 h"
    return f"{length / _HOUR:,.1f} h"
