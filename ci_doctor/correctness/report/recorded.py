# SPDX-License-Identifier: Apache-2.0
"""Reads one request of a run, finished or killed, back from its samples."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.correctness.evidence.files import SAMPLES
from ci_doctor.correctness.evidence.samples import Sample, read_line, read_lines
from ci_doctor.correctness.report.differences import Pair, Said, telling_pairs
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import ArmStart, DifferenceKind, classify
from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean

# So many ids are compared with a mistyped one; a larger file is not searched for likeness.
_MOST_IDS = 20_000


class StartSamples(Struct, frozen=True, kw_only=True):
    """What one start said to the request, by pass."""

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
        return {
            number: sample.digest
            for number, sample in self.samples.items()
            if sample.digest is not None
        }


class Recorded(Struct, frozen=True, kw_only=True):
    """One request in every start that was asked it, in the order in which they were made.

    `unreadable` counts lines of the file that hold no sample: a killed run may leave one, torn.
    """

    request: str
    starts: tuple[StartSamples, ...]
    unreadable: int = 0

    @property
    def passes(self) -> int:
        """How often it was asked in a start."""
        return max(number for start in self.starts for number in start.samples)

    @property
    def kind(self) -> DifferenceKind:
        """How the arms stand to each other on it."""
        starts = [
            ArmStart(
                arm=start.arm, number=start.number, answers={self.request: self._outcome(start)}
            )
            for start in self.starts
        ]
        return classify([self.request], starts)[self.request]

    def _outcome(self, start: StartSamples) -> str | None:
        digests = start.digests
        return (
            " ".join(digests[number] for number in sorted(digests))
            if len(digests) == self.passes
            else None
        )


class _Head(Struct, frozen=True):
    id: str


def read_request(directory: Path, identity: str) -> Recorded:
    """Every sample of the request `identity` below `directory`. One answer is in memory at a time, but for its own.

    Raises UsageError where there are no samples, or none of that request.
    """
    path = directory / SAMPLES
    starts: dict[tuple[str, int], dict[int, Sample]] = {}
    others: dict[str, None] = {}
    unreadable = 0
    for line in _lines(path):
        try:
            if (of := _id(line)) != identity:
                others.setdefault(of)
                continue
            sample = read_line(line)
            starts.setdefault((Arm(sample.arm).value, sample.start), {})[sample.pass_] = sample
        except ValueError:
            unreadable += 1
    if not starts:
        raise _unknown(path, identity, list(others))
    found = [
        StartSamples(arm=Arm(arm), number=number, samples=said)
        for (arm, number), said in starts.items()
    ]
    return Recorded(request=identity, starts=tuple(found), unreadable=unreadable)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        for _, line in read_lines(path):
            yield line
    except OSError as error:
        raise UsageError(
            f"no samples of a run in {path.parent}: {path.name}: {error.strerror}",
            hint="name the report directory of a `ci-doctor correctness` run with --run",
        ) from error


def _id(line: bytes) -> str:
    """The request's id of a line; the rest is not decoded. Raises ValueError."""
    with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
        return _HEAD.decode(line).id
    # A lone surrogate, which msgspec refuses; or no sample at all.
    told = json.loads(line)
    if not isinstance(told, dict) or not isinstance(told.get("id"), str):
        raise ValueError("no sample")  # noqa: TRY004 - of the line, not of an argument
    return str(told["id"])


_HEAD = msgspec.json.Decoder(_Head)


def _unknown(path: Path, identity: str, known: Sequence[str]) -> UsageError:
    if not known:
        return UsageError(
            f"{path} holds no sample",
            hint="name the report directory of a run that asked something",
        )
    hint = did_you_mean(identity, known[:_MOST_IDS])
    if hint and not hint.startswith("did you mean") and len(known) > 10:
        first = sorted(known, key=lambda each: (len(each), each))[:5]
        hint = f"it asked {len(known)} requests: {', '.join(first)} …"
    return UsageError(f"the run in {path.parent} never asked a request `{identity}`", hint=hint)


def choose_pair(recorded: Recorded, names: Sequence[str] = ()) -> Pair | None:
    """Two answers to show: of the starts named (one: two of its passes), else the pair that tells most.

    None where all answers are the same and nothing is named. Raises UsageError for a start that is not there.
    """
    by_name = {start.name: start for start in recorded.starts}
    for name in names:
        if name not in by_name:
            known = did_you_mean(name, by_name)
            hint = f"its archived starts are not in {SAMPLES}" if name[:1] in "ab" else known
            raise UsageError(f"no start `{name}` was asked {recorded.request}", hint=hint)
    if names:
        return _named(by_name[names[0]], by_name[names[-1]])
    said = [
        Said(name=start.name, arm=start.arm, digests=start.digests) for start in recorded.starts
    ]
    if pairs := telling_pairs(recorded.kind, said):
        return pairs[0]
    return next(
        (
            pair
            for start in recorded.starts
            if (pair := _named(start, start)) and pair.left != pair.right
        ),
        None,
    )


def _named(first: StartSamples, second: StartSamples) -> Pair | None:
    """Two starts in the first pass in which they differ; one start: its first pass against the first that differs."""
    numbers = sorted({*first.samples, *second.samples})
    pairs = [(number, number) for number in numbers]
    if first is second:
        pairs = [(numbers[0], number) for number in numbers[1:]]
    made = [
        Pair(
            first=first.name,
            second=second.name,
            number=one,
            other=other,
            left=first.digests.get(one),
            right=second.digests.get(other),
        )
        for one, other in pairs
    ]
    return next((pair for pair in made if pair.left != pair.right), made[0] if made else None)
