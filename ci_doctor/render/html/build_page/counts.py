# SPDX-License-Identifier: Apache-2.0
"""Pure. The few figures that stand large above a build's page, and its verdicts as shares."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from ci_doctor.model.facts.build import BuildFacts
from ci_doctor.render.build_words import counted
from ci_doctor.render.formatting import duration
from ci_doctor.render.headline import Headline, job_headline
from ci_doctor.render.html.build_page.axis import Axis, known, percent
from ci_doctor.render.html.build_page.causes import hours


class VerdictShare(Struct, frozen=True, kw_only=True):
    """How many steps have one verdict, and their part of a strip, in percent."""

    head: Headline
    count: int
    x: str
    width: str
    end: str


def shares(facts: BuildFacts) -> tuple[VerdictShare, ...]:
    """The verdicts of `facts`, the worst first."""
    total = len(facts.build_steps)
    rows = []
    before = 0
    for verdict, count in counted(facts.build_steps):
        row = VerdictShare(
            head=job_headline(verdict),
            count=count,
            x=percent(100 * before / total),
            width=percent(100 * count / total),
            end=percent(100 * (before + count) / total),
        )
        rows.append(row)
        before += count
    return tuple(rows)


def figures(facts: BuildFacts, axis: Axis | None) -> tuple[tuple[str, str], ...]:
    """A name and a figure for each."""
    return tuple(_figures(facts, axis))


def _figures(facts: BuildFacts, axis: Axis | None) -> Iterator[tuple[str, str]]:
    attempts = sum(len(step.attempts) for step in facts.build_steps)
    yield _counted(len(facts.build_steps), "step")
    yield _counted(attempts, "attempt")
    if facts.missing:
        yield _counted(len(facts.missing), "missing report")
    yield "first start to last end", "unknown" if axis is None else duration(axis.took)
    failures = [cause for cause in facts.causes if not cause.cancelled]
    if failures:
        yield "lost to failures", _total([cause.seconds for cause in failures], duration)
        yield "GPU hours lost", _total([cause.gpu_seconds for cause in failures], hours)


def _counted(count: int, noun: str) -> tuple[str, str]:
    name = noun if count == 1 else f"{noun}s"
    return name, f"{count:,}"


def _total(parts: Sequence[float | None], form: Callable[[float], str]) -> str:
    """The sum of what is known; unknown if nothing is."""
    lengths = [length for part in parts if (length := known(part)) is not None]
    if not lengths:
        return "unknown"
    at_least = "≥ " if len(lengths) < len(parts) else ""
    return at_least + form(sum(lengths))
