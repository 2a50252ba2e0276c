# SPDX-License-Identifier: Apache-2.0
"""Reads one request of a run, finished or killed, back from its samples."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ci_doctor.correctness.comparison import Comparison
from ci_doctor.correctness.evidence.files import SAMPLES
from ci_doctor.correctness.evidence.samples import Sample, is_control, read_line, read_lines
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.same_answers import SameAnswers
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.tally import Tally
from ci_doctor.correctness.verdict.compare import classify
from ci_doctor.correctness.verdict.starts import Answer, DifferenceKind
from ci_doctor.errors import UsageError
from ci_doctor.load.canonical import check_output
from ci_doctor.model.suggestion import nearest

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


_ID_DECODER = msgspec.json.Decoder(_IdOfLine)


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
        raise _unknown(path, identity, list(others))
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


def _unknown(path: Path, identity: str, ids: Sequence[str]) -> UsageError:
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
