# SPDX-License-Identifier: Apache-2.0
"""Reads one request of a run, finished or killed, back from its samples, and the two answers to show."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ci_doctor.correctness.evidence.files import SAMPLES
from ci_doctor.correctness.evidence.run_identity import read_run
from ci_doctor.correctness.evidence.samples import Sample, is_control, read_line, read_lines
from ci_doctor.correctness.report.differences import AnswerPair, StartDigests, telling_pairs
from ci_doctor.correctness.report.divergence import Divergence, first_divergence, no_answer
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.same_answers import SameAnswers
from ci_doctor.correctness.settings import AnswerLevel, Arm, Comparison, read_comparison
from ci_doctor.correctness.tally import Tally
from ci_doctor.correctness.verdict.compare import classify
from ci_doctor.correctness.verdict.starts import Answer, DifferenceKind
from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.load.canonical import check_output
from ci_doctor.model.words import did_you_mean, nearest

# --- reads what the gate of a finished run compared ---


def recorded_comparison(directory: Path) -> Comparison:
    """The comparison of the run in a report directory; everything, if it does not say so."""
    try:
        settings = read_run(directory).identity.settings
        level = AnswerLevel(str(settings.get("compare") or AnswerLevel.NUMBERS))
        limit = settings.get("limit")
        return read_comparison(level, str(limit) if limit else None)
    except (UsageError, ValueError):
        # Samples alone can be shown too, or those of an earlier version.
        return Comparison()


# --- reads one request of a run, finished or killed, back from its samples ---

# So many ids are compared with a mistyped one. The comparison is quadratic in their length: a
# larger file would keep a person waiting for a hint.
_MOST_IDS = 20_000
_MANY_IDS = 10
_MOST_PASSES = 1_000_000  # of a request; a file may hold any number


class StartSamples(Struct, frozen=True, kw_only=True):
    """What one start answered to the request, by pass."""

    arm: Arm
    number: int
    samples: Mapping[int, Sample]

    @property
    def name(self) -> str:
        """`A1`."""
        return f"{self.arm.letter}{self.number}"

    @property
    def digests(self) -> dict[int, str]:
        """The digests of its answers by pass; an error has none."""
        digests = {}
        for number, sample in self.samples.items():
            if sample.digest is not None:
                digests[number] = sample.digest
        return digests


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """One request in every start that got it, in the order in which the starts were made.

    `comparison` is that of the run's gate. `unreadable` counts lines of the file that hold no sample: a killed run may leave a torn one.
    """

    request: str
    starts: tuple[StartSamples, ...]
    unreadable: int = 0
    comparison: Comparison = Comparison()

    @property
    def passes(self) -> int:
        """How often a start got it."""
        # A killed start may lack the last passes: the start that got furthest counts.
        return max(max(start.samples) for start in self.starts)

    @property
    def kind(self) -> DifferenceKind:
        """How the arms compare on it at the gate's level."""
        starts = [result.start for result in self._at_gate()]
        kinds = classify([self.request], starts)
        return kinds[self.request]

    @property
    def outcomes(self) -> dict[str, Answer]:
        """By the name of each start, its outcome at the gate's level."""
        outcomes = {}
        for result in self._at_gate():
            outcomes[result.start.name] = result.start.answers[self.request]
        return outcomes

    def _at_gate(self) -> Iterator[StartResult]:
        outputs: dict[str, Mapping[str, Any]] = {}
        same = SameAnswers(self.comparison, outputs)
        for recorded in self.starts:
            tally = Tally(
                arm=recorded.arm, number=recorded.number, ids=(self.request,), passes=self.passes
            )
            for sample in recorded.samples.values():
                tally.add(sample)
                if sample.digest is not None and sample.output is not None:
                    outputs[sample.digest] = sample.output
            result = StartResult(
                start=tally.start(failed=False, outside=False),
                failure=None,
                duration_s=0.0,
                logs=(),
                digests=tally.digests,
                errors=tally.errors,
            )
            yield same.at_gate(result)


class _IdOfLine(Struct, frozen=True):
    """The id of a sample. msgspec skips what a type does not name, without decoding it."""

    id: str


_ID_DECODER = msgspec.json.Decoder(decodable(_IdOfLine))


def read_request(directory: Path, identity: str) -> RecordedRequest:
    """Every sample of the request `identity` below `directory`.

    One line is in memory at a time, beside the samples of the request. Raises UsageError if there
    are no samples, or none of that request.
    """
    path = directory / SAMPLES
    starts: dict[tuple[Arm, int], dict[int, Sample]] = {}
    # A dict, and not a set: the hint names ids in the order of the file.
    others: dict[str, None] = {}
    unreadable = 0
    for line in _lines(path):
        try:
            line_id = _id(line)
            if line_id != identity:
                others.setdefault(line_id)
                continue
            sample = _sample(line)
            starts.setdefault((Arm(sample.arm), sample.start), {})[sample.pass_] = sample
        except ValueError:
            unreadable += 1
    if not starts:
        raise _unknown_request(path, identity, list(others))
    recorded = []
    for (arm, number), samples in starts.items():
        recorded.append(StartSamples(arm=arm, number=number, samples=samples))
    return RecordedRequest(
        request=identity,
        starts=tuple(recorded),
        unreadable=unreadable,
    )


def _lines(path: Path) -> Iterator[bytes]:
    try:
        for _, line in read_lines(path):
            if not is_control(line):
                yield line
    except OSError as error:
        raise UsageError(
            f"no samples of a run in {path.parent}: {path.name}: {error.strerror}",
            hint="name the report directory of a `ci-doctor correctness` run with --run",
        ) from error


def _id(line: bytes) -> str:
    """The request's id of a line. Raises ValueError."""
    with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
        return _ID_DECODER.decode(line).id
    # A lone surrogate, which msgspec refuses and json accepts; or no sample at all.
    value = json.loads(line)
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise ValueError("no sample")  # noqa: TRY004 - of the line, not of an argument
    return str(value["id"])


def _sample(line: bytes) -> Sample:
    """The sample of a line, whose output has the shape of an answer. Raises ValueError."""
    sample = read_line(line)
    if sample.start < 1 or not 1 <= sample.pass_ <= _MOST_PASSES:
        raise ValueError("starts and passes count from 1")
    if sample.output is not None:
        check_output(sample.output)
    return sample


def _unknown_request(path: Path, identity: str, ids: Sequence[str]) -> UsageError:
    if not ids:
        return UsageError(
            f"{path} holds no sample",
            hint="name the report directory of a run that sent requests",
        )
    message = f"the run in {path.parent} never sent a request `{identity}`"
    return UsageError(message, hint=_hint(identity, ids))


def _hint(identity: str, ids: Sequence[str]) -> str:
    near = nearest(identity, ids[:_MOST_IDS])
    if near is not None:
        return f"did you mean `{near}`?"
    if len(ids) <= _MANY_IDS:
        names = ", ".join(sorted(ids))
        return f"known names: {names}"
    # The shortest are the easiest to type, and five of them fit on a line.
    shortest = sorted(ids, key=lambda each: (len(each), each))[:5]
    names = ", ".join(shortest)
    return f"it sent {len(ids)} requests: {names} …"


# --- which two answers of a recorded request a replay shows, and where they diverge ---


def choose_pair(recorded: RecordedRequest, names: Sequence[str] = ()) -> AnswerPair | None:
    """Two answers to show: of the named starts (of one: two passes), else the most telling pair.

    None if all answers are the same and nothing is named. Raises UsageError for an unknown start.
    """
    if not names:
        return _most_telling(recorded)
    by_name = {start.name: start for start in recorded.starts}
    for name in names:
        if name not in by_name:
            raise _unknown_start(name, recorded, list(by_name))
    return _pair(by_name[names[0]], by_name[names[-1]])


def _most_telling(recorded: RecordedRequest) -> AnswerPair | None:
    """Two starts that differ, else two passes of one start, else None."""
    answers = []
    outcomes = recorded.outcomes
    for start in recorded.starts:
        digests = StartDigests(
            name=start.name, arm=start.arm, digests=start.digests, outcome=outcomes[start.name]
        )
        answers.append(digests)
    for pair in telling_pairs(recorded.kind, answers):
        return pair
    for start in recorded.starts:
        passes = _pair(start, start)
        if passes is not None and passes.left != passes.right:
            return passes
    return None


def _unknown_start(name: str, recorded: RecordedRequest, names: Sequence[str]) -> UsageError:
    hint = did_you_mean(name, names)
    if name.startswith(("a", "b")):
        hint = f"its archived starts are not in {SAMPLES}"
    return UsageError(f"no start `{name}` got the request {recorded.request}", hint=hint)


def _pair(first: StartSamples, second: StartSamples) -> AnswerPair | None:
    """The first pass in which two starts differ, or their first pass.

    Of one start: its first pass and the first pass that differs from it, or its second pass. None
    if it has a single pass.
    """
    numbers = sorted({*first.samples, *second.samples})
    passes = [(number, number) for number in numbers]
    if first is second:
        passes = [(numbers[0], number) for number in numbers[1:]]
    pairs = []
    for one, other in passes:
        pair = AnswerPair(
            first=first.name,
            second=second.name,
            number=one,
            other=other,
            left=first.digests.get(one),
            right=second.digests.get(other),
        )
        if pair.left != pair.right:
            return pair
        pairs.append(pair)
    return pairs[0] if pairs else None


def names_of(pair: AnswerPair) -> tuple[str, str]:
    """The names of the two sides: starts, or passes if both are one start."""
    if pair.first != pair.second:
        return pair.first, pair.second
    other = pair.other or pair.number
    left = f"{pair.first} pass {pair.number}"
    right = f"{pair.second} pass {other}"
    return left, right


def samples_of(recorded: RecordedRequest, pair: AnswerPair) -> tuple[Sample | None, Sample | None]:
    """The two samples of a pair; None for a pass that the start did not reach."""
    samples = {start.name: start.samples for start in recorded.starts}
    # Without a pass of its own, the second answer is of the same pass as the first.
    other = pair.other or pair.number
    left = samples[pair.first].get(pair.number)
    right = samples[pair.second].get(other)
    return left, right


def outputs_of(
    recorded: RecordedRequest, pair: AnswerPair
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The two answers of a pair; None is no answer."""
    left, right = samples_of(recorded, pair)
    return _output(left), _output(right)


def _output(sample: Sample | None) -> Mapping[str, Any] | None:
    if sample is None:
        return None
    return sample.output


def divergence_of(recorded: RecordedRequest, pair: AnswerPair, width: int) -> Divergence:
    """Where the two answers of `pair` diverge, with `width` characters around it."""
    left, right = outputs_of(recorded, pair)
    if left is None or right is None:
        return no_answer(left, right, width)
    return first_divergence(left, right, width)
