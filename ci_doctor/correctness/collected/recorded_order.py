# SPDX-License-Identifier: Apache-2.0
"""Reads in which order the starts of collected samples were made, where the files record it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

import msgspec

from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.sources import SourcePosition, content
from ci_doctor.correctness.collected.survey import Survey
from ci_doctor.correctness.evidence.run_identity import drawn_in, read_run
from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.verdict.schedule import sequence
from ci_doctor.errors import UsageError
from ci_doctor.load.schema import parse_json

# So many answers of a start are read: they lie close together in time.
_READ = 100
# Where an answer holds the time at which it was made, in seconds, by format: OpenAI's `created`,
# and `created_at` of its Responses API.
_KEYS = ("created", "created_at")
_ROW_KEYS = (*_KEYS, "timestamp")


def recorded_order(survey: Survey) -> tuple[int, ...] | None:
    """The indices of the survey's starts in order of time; None if nothing records it.

    Our own samples are written as they arrive, so one file of them is in order. Other files record
    it if each answer holds the time at which it was made, and no two starts of different arms
    overlap. Raises InfraError if a file can no longer be read.
    """
    indices = range(len(survey.starts))
    places = [list(_places(survey, index)) for index in indices]
    if not all(places):
        return None
    sources = {start.source.path for start in survey.starts}
    if len(sources) == 1 and survey.starts[0].source.form is SampleFormat.OURS:
        return tuple(sorted(indices, key=lambda index: min(each.line for each in places[index])))
    spans = [_span(each) for each in places]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    order = sorted(indices, key=lambda index: known[index])
    for before, after in pairwise(order):
        is_other_arm = survey.starts[before].arm is not survey.starts[after].arm
        if is_other_arm and known[before][1] >= known[after][0]:
            return None
    return tuple(order)


def drawn_rules(survey: Survey, order: Sequence[int], alpha: float) -> Rules | None:
    """The rules of the run of ours that made these starts, in that order of time.

    None if they are not those of one run, or not made in the order that its seed draws, or if its
    alpha was another.
    """
    sources = {start.source.path for start in survey.starts}
    if len(sources) > 1 or survey.starts[0].source.form is not SampleFormat.OURS:
        return None
    try:
        run = read_run(sources.pop().parent)
        rules = drawn_in(run)
    except (UsageError, msgspec.ValidationError):
        return None
    arms = tuple(survey.starts[index].arm for index in order)
    if rules is None or rules.alpha != alpha or sequence(rules)[: len(arms)] != arms:
        return None
    return rules


def _places(survey: Survey, index: int) -> Iterator[SourcePosition]:
    """Where the answers of a start are, to the requests that are not the same everywhere."""
    for columns in survey.odd.values():
        for positions in columns[index].values():
            yield from positions


def _span(places: Sequence[SourcePosition]) -> tuple[float, float] | None:
    """The first and the last time in the answers at these places; None if one has none."""
    times = [_time(place) for place in islice(places, _READ)]
    known = [time for time in times if time is not None]
    if not known or len(known) < len(times):
        return None
    return min(known), max(known)


def _time(place: SourcePosition) -> float | None:
    form = place.source.form
    if form is SampleFormat.LMCACHE:
        return None
    try:
        value: Any = parse_json(content(place))
    except ValueError:
        return None
    # The way to the object that holds the time.
    ways = {SampleFormat.OURS: ("meta",), SampleFormat.BATCH: ("response", "body")}
    for key in ways.get(form, ()):
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        return None
    return _number(value, _ROW_KEYS if form is SampleFormat.ROWS else _KEYS)


def _number(value: Mapping[str, Any], keys: Sequence[str]) -> float | None:
    for key in keys:
        time = value.get(key)
        # True is an int. 0 is what a server without a clock says.
        if isinstance(time, int | float) and not isinstance(time, bool) and time > 0:
            return float(time)
    return None
