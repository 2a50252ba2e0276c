# SPDX-License-Identifier: Apache-2.0
"""What the starts of both arms answered, request by request. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, assert_never

from msgspec import Struct

from ci_doctor.correctness.settings import Arm
from ci_doctor.load.canonical import encode, text_of

# The outcome of a request in one start: a digest over its passes, or None where any pass has no answer.
Answer = str | None


class Start(Struct, frozen=True, kw_only=True):
    """What one start of an arm answered.

    `answers` maps every request id to its outcome. `failed` says that a service was of no use (died, never ready) and
    `outside` that the cause lies outside the change. `prompts` holds what the server says of a request's prompt, by the
    name of the fact (`prompt_tokens`: "7"); facts that it does not tell are not there. `empty` counts answers without
    any text. `proof_missing` holds the conditions that were not met.
    """

    arm: Arm
    number: int
    answers: Mapping[str, Answer] = {}
    failed: bool = False
    outside: bool = False
    prompts: Mapping[str, Mapping[str, str]] = {}
    empty: int = 0
    proof_missing: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`A1`, `B2`."""
        return f"{self.arm.letter}{self.number}"

    @property
    def answered(self) -> int:
        """How many requests have an answer."""
        return sum(answer is not None for answer in self.answers.values())


class Kind(StrEnum):
    """How the arms stand to each other on one request."""

    EQUAL = "equal"
    UNANSWERED = "unanswered"  # by every baseline start, or there is no candidate start: nothing to compare
    FLAKY = "flaky"  # the baseline varies, and the candidate shows nothing of its own
    OWN = "own"  # the baseline varies, and the candidate shows something of its own
    SOMETIMES = "sometimes"  # the baseline is always the same, the candidate only sometimes the same as it
    CHANGED = "changed"  # the baseline is always the same, the candidate never the same as it


def classify(requests: Sequence[str], starts: Sequence[Start]) -> dict[str, Kind]:
    """The kind of every request over the starts that gave evidence (see `counted`)."""
    baseline = [start for start in counted(starts) if start.arm is Arm.BASELINE]
    candidate = [start for start in counted(starts) if start.arm is Arm.CANDIDATE]
    return {
        request: _kind(
            {start.answers.get(request) for start in baseline}, {start.answers.get(request) for start in candidate}
        )
        for request in requests
    }


def counted(starts: Iterable[Start]) -> list[Start]:
    """The starts whose answers count: not those that never came to be for a reason outside the change."""
    return [start for start in starts if not start.outside]


def _kind(baseline: set[Answer], candidate: set[Answer]) -> Kind:
    """`None` (no answer) is an outcome like any other, but one that a baseline without an answer never excuses."""
    answers = baseline - {None}
    if not answers or not candidate:
        return Kind.UNANSWERED
    if len(baseline) > 1:
        return Kind.FLAKY if candidate <= answers else Kind.OWN
    if candidate <= baseline:
        return Kind.EQUAL
    return Kind.SOMETIMES if candidate & baseline else Kind.CHANGED


def spoken(starts: Iterable[Start]) -> list[Start]:
    """The starts worth telling of: of two that answered nothing neither agreement nor difference can be said."""
    return [start for start in counted(starts) if start.answered]


def clusters(starts: Sequence[Start]) -> tuple[tuple[str, ...], ...]:
    """The names of the starts that answered everything alike, grouped; in order of first appearance."""
    groups: dict[tuple[tuple[str, Answer], ...], list[str]] = {}
    for start in counted(starts):
        groups.setdefault(tuple(sorted(start.answers.items())), []).append(start.name)
    return tuple(tuple(names) for names in groups.values())


class Divergence(Struct, frozen=True, kw_only=True):
    """Where two answers to `request` part: at 0-based character `position` of the text, or in `field` where the texts agree.

    `before` is the text that both share, `baseline` and `candidate` what follows in each; all three are cut short.
    """

    request: str
    field: str
    position: int
    before: str
    baseline: str
    candidate: str


def first_divergence(
    request: str, baseline: Mapping[str, Any], candidate: Mapping[str, Any], width: int = 40
) -> Divergence:
    """The first place where two outputs differ, with `width` characters around it."""
    left, right = text_of(dict(baseline)), text_of(dict(candidate))
    field = "text"
    if left == right:
        field, left, right = _first_field(baseline, candidate)
    at = next(
        (index for index, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]),
        min(len(left), len(right)),
    )
    return Divergence(
        request=request,
        field=field,
        position=at,
        before=_encodable(left[max(0, at - width) : at]),
        baseline=_encodable(left[at : at + width]),
        candidate=_encodable(right[at : at + width]),
    )


def _encodable(text: str) -> str:
    """A model may say a lone surrogate, which no file can hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _first_field(left: Any, right: Any, path: str = "") -> tuple[str, str, str]:
    """The path of the first value in which two JSON values differ, and both values as text."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in sorted({*left, *right}):
            if _differ(left.get(key), right.get(key)):
                return _first_field(left.get(key), right.get(key), f"{path}.{key}" if path else key)
    if isinstance(left, list) and isinstance(right, list):
        for index, (one, other) in enumerate(zip(left, right, strict=False)):
            if _differ(one, other):
                return _first_field(one, other, f"{path}[{index}]")
        return f"len({path})", str(len(left)), str(len(right))
    return path or "output", json.dumps(left, sort_keys=True), json.dumps(right, sort_keys=True)


def _differ(left: Any, right: Any) -> bool:
    """As digests do: 1, 1.0 and True are one to Python, and 0.0 equals -0.0."""
    return encode(left) != encode(right)


def explain(kind: Kind) -> str:
    """A kind in words."""
    match kind:
        case Kind.EQUAL:
            return "the same in every start of both arms"
        case Kind.UNANSWERED:
            return "answered by no baseline start, or never asked of the candidate"
        case Kind.FLAKY:
            return "the baseline differs from itself; the candidate shows nothing of its own"
        case Kind.OWN:
            return "the baseline differs from itself; the candidate shows an output of its own"
        case Kind.SOMETIMES:
            return "the baseline is always the same; the candidate is only sometimes the same as it"
        case Kind.CHANGED:
            return "the baseline is always the same; the candidate is never the same as it"
        case _ as never:
            assert_never(never)
