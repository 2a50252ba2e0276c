# SPDX-License-Identifier: Apache-2.0
"""What the starts of both arms answered, request by request. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import assert_never

from msgspec import Struct

from ci_doctor.correctness.settings import Arm

# The outcome of a request in one start: a digest over its passes, or None where any pass has no answer.
Answer = str | None


class ArmStart(Struct, frozen=True, kw_only=True):
    """What one start of an arm answered; an `archived` one was made by an earlier build.

    `answers` maps every request id to its outcome, and `words` to the outcome of its words alone where answers hold
    log-probabilities too. `failed` says that a service was of no use (died, never ready),
    `outside` that the cause lies outside the change, and `claimed` that only its own log says so. `prompts` holds what the server says of a request's prompt, by the
    name of the fact (`prompt_tokens`: "7"); facts that it does not tell are not there. `empty` counts answers without
    any text. `proof_missing` says, a sentence each, what was asked of the start and is not shown.
    """

    arm: Arm
    number: int
    answers: Mapping[str, Answer] = {}
    words: Mapping[str, Answer] = {}
    failed: bool = False
    outside: bool = False
    claimed: bool = False
    prompts: Mapping[str, Mapping[str, str]] = {}
    empty: int = 0
    proof_missing: tuple[str, ...] = ()
    archived: bool = False

    @property
    def name(self) -> str:
        """`A1`, `B2`; `a1` for an archived one."""
        letter = self.arm.letter.lower() if self.archived else self.arm.letter
        return f"{letter}{self.number}"

    @property
    def answered(self) -> int:
        """How many requests have an answer."""
        return sum(answer is not None for answer in self.answers.values())


class DifferenceKind(StrEnum):
    """How the arms stand to each other on one request."""

    EQUAL = "equal"
    UNANSWERED = (
        "unanswered"  # by every baseline start, or there is no candidate start: nothing to compare
    )
    FLAKY = "flaky"  # the baseline varies, and the candidate shows nothing of its own
    OWN = "own"  # the baseline varies, and the candidate shows something of its own
    SOMETIMES = (
        "sometimes"  # the baseline is always the same, the candidate only sometimes the same as it
    )
    CHANGED = "changed"  # the baseline is always the same, the candidate never the same as it


def classify(requests: Sequence[str], starts: Sequence[ArmStart]) -> dict[str, DifferenceKind]:
    """The kind of every request over the starts that gave evidence (see `counted`)."""
    baseline = [start for start in counted(starts) if start.arm is Arm.BASELINE]
    candidate = [start for start in counted(starts) if start.arm is Arm.CANDIDATE]
    return {
        request: _kind(
            {start.answers.get(request) for start in baseline},
            {start.answers.get(request) for start in candidate},
        )
        for request in requests
    }


# One could be noise.
_FEWEST_TODAY = 2


def counted(starts: Iterable[ArmStart]) -> list[ArmStart]:
    """The starts whose answers count.

    Not those that never came to be for a reason outside the change. Not archived ones where two baseline starts of today
    share no answer with any of them, to a request on which the archived ones repeat themselves: then this is another
    machine, whatever its identity says. (Given that choice the test over what is left is not exact; it leaves out
    evidence against the candidate as well as for it.)
    """
    usable = [start for start in starts if not start.outside]
    archived = [start for start in usable if start.archived]
    if not archived:
        return usable
    today = [
        start
        for start in usable
        if start.arm is Arm.BASELINE and start.answered and not start.archived
    ]
    if len(today) >= _FEWEST_TODAY and _some_request_apart(archived, today):
        return [start for start in usable if not start.archived]
    return usable


def _some_request_apart(archived: Sequence[ArmStart], today: Sequence[ArmStart]) -> bool:
    for request in today[0].answers:
        before = [start.answers.get(request) for start in archived]
        now = {start.answers.get(request) for start in today} - {None}
        if now and now.isdisjoint(before) and len({*before}) <= len(before) // 2 + 1:
            return True
    return False


def _kind(baseline: set[Answer], candidate: set[Answer]) -> DifferenceKind:
    """`None` (no answer) is an outcome like any other, but one that a baseline without an answer never excuses."""
    answers = baseline - {None}
    if not answers or not candidate:
        return DifferenceKind.UNANSWERED
    if len(baseline) > 1:
        return DifferenceKind.FLAKY if candidate <= answers else DifferenceKind.OWN
    if candidate <= baseline:
        return DifferenceKind.EQUAL
    return DifferenceKind.SOMETIMES if candidate & baseline else DifferenceKind.CHANGED


def answering(starts: Iterable[ArmStart]) -> list[ArmStart]:
    """The starts worth telling of: of two that answered nothing neither agreement nor difference can be said."""
    return [start for start in counted(starts) if start.answered]


def clusters(starts: Sequence[ArmStart]) -> tuple[tuple[str, ...], ...]:
    """The names of the starts that answered everything alike, grouped; in order of first appearance."""
    groups: dict[tuple[tuple[str, Answer], ...], list[str]] = {}
    for start in counted(starts):
        groups.setdefault(tuple(sorted(start.answers.items())), []).append(start.name)
    return tuple(tuple(names) for names in groups.values())


def explain(kind: DifferenceKind) -> str:
    """A kind in words."""
    match kind:
        case DifferenceKind.EQUAL:
            return "the same in every start of both arms"
        case DifferenceKind.UNANSWERED:
            return "answered by no baseline start, or never asked of the candidate"
        case DifferenceKind.FLAKY:
            return "the baseline differs from itself; the candidate shows nothing of its own"
        case DifferenceKind.OWN:
            return "the baseline differs from itself; the candidate shows an output of its own"
        case DifferenceKind.SOMETIMES:
            return "the baseline is always the same; the candidate is only sometimes the same as it"
        case DifferenceKind.CHANGED:
            return "the baseline is always the same; the candidate is never the same as it"
        case _ as never:
            assert_never(never)
