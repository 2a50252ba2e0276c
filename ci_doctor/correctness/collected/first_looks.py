# SPDX-License-Identifier: Apache-2.0
"""Reads the first answers of each side, for warnings about answers that show little."""

from collections.abc import Iterator, Sequence
from itertools import islice

from ci_doctor.correctness.collected.entries import Entry, read
from ci_doctor.correctness.collected.sources import records
from ci_doctor.correctness.collected.start_records import CollectedStart
from ci_doctor.correctness.report.findings import (
    blank_answers,
    one_answer,
    other_model,
)
from ci_doctor.correctness.verdict.starts import ArmStart, of_arm
from ci_doctor.load.looks import LooksOfAnswers
from ci_doctor.model.finding import Finding

# Answers that are all the same, or blank, are so from the beginning.
_READ = 200


def first_looks(starts: Sequence[CollectedStart]) -> Iterator[Finding]:
    """Warnings about the first answers of the first start of each side. Raises InfraError."""
    looked: list[ArmStart] = []
    for start in starts:
        if not of_arm(looked, start.arm):
            looked.append(_look(start))
    # The prompts are unknown: each request counts as one.
    yield from one_answer(looked, _READ)
    yield from blank_answers(looked)
    yield from other_model(looked)


def _look(start: CollectedStart) -> ArmStart:
    looks = LooksOfAnswers()
    empty = 0
    beginning = islice(records(start.source), _READ)
    for number, (identity, position, content) in enumerate(beginning):
        entry = read(position.source.form, content)
        if entry.output is None or not _is_of(start, entry):
            continue
        looks.add(identity or entry.id or str(number), entry.output, entry.prompt_facts)
        empty += entry.empty
    return ArmStart(arm=start.arm, number=start.number, looks=looks.value(), empty=empty)


def _is_of(start: CollectedStart, entry: Entry) -> bool:
    """Our own samples may hold both arms in one file."""
    return entry.group is None or entry.group[0] == start.arm.value
