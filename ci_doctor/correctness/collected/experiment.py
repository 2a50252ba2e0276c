# SPDX-License-Identifier: Apache-2.0
"""Reads again, the slow and complete way, what the survey could not match: an experiment of samples.

From here on collected samples go the way of a run of ours: samples, tally, starts, decision, report.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise, product
from typing import Any

import msgspec
from msgspec.structs import replace

from ci_doctor.correctness.collected.formats import Entry, SampleFormat
from ci_doctor.correctness.collected.survey import (
    CollectedStart,
    Survey,
    SurveyRecord,
)
from ci_doctor.correctness.evidence.run_identity import drawn_in, read_run
from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.results import Experiment, ExperimentEnding, StartResult
from ci_doctor.correctness.settings import Comparison, Rules
from ci_doctor.correctness.tally import SameAnswers, Tally, level_digests
from ci_doctor.correctness.verdict.schedule import sequence
from ci_doctor.errors import UsageError
from ci_doctor.load.looks import AnswerLooks, LooksOfAnswers
from ci_doctor.load.schema import parse_json

# The outcome of a request whose answers are the same bytes in every start and pass. A digest has 64
# characters, so none is equal to it.
SAME = "="
TWICE = "its id is in the file more than once"
# Answers that are all the same, or blank, are so from the beginning.
LOOKED_AT = 200
# So many answers of a start are read for their time: they lie close together in time.
_TIMED = 100
# Where an answer holds the time at which it was made, in seconds, by format: OpenAI's `created`,
# and `created_at` of its Responses API.
_KEYS = ("created", "created_at")
_ROW_KEYS = (*_KEYS, "timestamp")


class _Outputs(Mapping[str, Mapping[str, Any]]):
    """The answers that were read, by their digests; each is read again when it is asked for."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[CollectedStart, SurveyRecord]] = {}

    def __getitem__(self, digest: str) -> Mapping[str, Any]:
        start, record = self.places[digest]
        output = start.entry(record).output
        if output is None:
            raise KeyError(digest)
        return output

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def read_again(survey: Survey) -> list[str]:
    """The requests whose answers are read whole: all that may differ, and one that proves the rest."""
    odd = set(survey.odd)
    proving = (request for request in survey.requests if request not in odd)
    return [*survey.odd, *islice(proving, 1)]


def collected_experiment(
    survey: Survey, order: Sequence[int], rules: Rules, comparison: Comparison
) -> Experiment:
    """The starts of a survey in `order`, as a run leaves them. Raises InfraError."""
    requests = read_again(survey)
    outputs = _Outputs()
    gate = SameAnswers(comparison, outputs)
    same = dict.fromkeys(survey.requests, SAME)
    looked_at = set()
    results = []
    for index in order:
        start = survey.starts[index]
        result = gate.at_gate(_result(start, requests, survey.passes, outputs))
        looks = AnswerLooks()
        if start.arm not in looked_at:
            looked_at.add(start.arm)
            looks = _looks(start)
        answers = {**same, **result.start.answers}
        made = replace(result.start, answers=answers, looks=looks)
        results.append(replace(result, start=made))
    return Experiment(
        results=tuple(results),
        outputs=outputs,
        ending=ExperimentEnding.COMPLETE,
        rules=rules,
        comparison=comparison,
    )


def _result(
    start: CollectedStart, requests: Sequence[str], passes: int, outputs: _Outputs
) -> StartResult:
    """What one start answered to these requests."""
    tally = Tally(arm=start.arm, number=start.number, ids=requests, passes=passes)
    for request, number in product(requests, range(1, passes + 1)):
        record = start.record(request, number)
        answer = Entry(error=TWICE if request in start.twice else None)
        if record is not None:
            answer = start.entry(record)
        sample = Sample(
            arm=start.arm.value, start=start.number, pass_=number, id=request, error=answer.error
        )
        if record is not None and answer.output is not None and answer.digest is not None:
            outputs.places.setdefault(answer.digest, (start, record))
            levels = level_digests(answer.output, answer.digest)
            sample = replace(
                sample,
                output=answer.output,
                digest=answer.digest,
                words_digest=levels.words,
                tokens_digest=levels.tokens,
                prompt_facts=answer.prompt_facts,
                empty=answer.empty,
            )
        tally.add(sample)
    return tally.result()


def _looks(start: CollectedStart) -> AnswerLooks:
    """What the first answers of a start look like."""
    looks = LooksOfAnswers()
    for number, record in enumerate(islice(start.records, LOOKED_AT)):
        answer = start.entry(record)
        if answer.output is not None:
            looks.add(record.id or str(number), answer.output, answer.prompt_facts)
    return looks.value()


# --- the order of the starts ---


def recorded_order(survey: Survey) -> tuple[int, ...] | None:
    """The indices of the survey's starts in order of time; None if nothing records it.

    Our own samples are written as they arrive, so one file of them is in order. Other files record
    it if each answer holds the time at which it was made, and no two starts of different arms
    overlap. Raises InfraError if a file can no longer be read.
    """
    starts = survey.starts
    indices = range(len(starts))
    # Of the answers that are not the same everywhere.
    odd = set(survey.odd)
    placed = [
        [column[each] for column in start.columns.values() for each in column if each in odd]
        for start in starts
    ]
    if not all(placed):
        return None
    if len({start.source.path for start in starts}) == 1 and (
        starts[0].source.form is SampleFormat.OURS
    ):
        return tuple(sorted(indices, key=lambda index: min(each.line for each in placed[index])))
    spans = []
    for start, some in zip(starts, placed, strict=True):
        times = [_time(start, record) for record in some[:_TIMED]]
        known = [time for time in times if time is not None]
        if len(known) < len(times):
            return None
        spans.append((min(known), max(known)))
    order = sorted(indices, key=lambda index: spans[index])
    for before, after in pairwise(order):
        is_other_arm = starts[before].arm is not starts[after].arm
        if is_other_arm and spans[before][1] >= spans[after][0]:
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


def _time(start: CollectedStart, record: SurveyRecord) -> float | None:
    """The time in an answer; None if it has none."""
    form = start.source.form
    try:
        value: Any = parse_json(start.content(record))
    except ValueError:
        return None
    # The way to the object that holds the time.
    ways = {SampleFormat.OURS: ("meta",), SampleFormat.BATCH: ("response", "body")}
    for key in ways.get(form, ()):
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        return None
    for key in _ROW_KEYS if form is SampleFormat.ROWS else _KEYS:
        time = value.get(key)
        # True is an int. 0 is what a server without a clock says; an int may be beyond all doubles.
        if not isinstance(time, int | float) or isinstance(time, bool):
            continue
        if 0 < time <= sys.float_info.max:
            return float(time)
    return None
