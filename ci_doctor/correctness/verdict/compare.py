# SPDX-License-Identifier: Apache-2.0
"""What the starts of both arms answered, request by request. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.comparison import AnswerLevel
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.archive_drift import ArchiveDrift, archive_drift
from ci_doctor.correctness.verdict.control import ControlOutcome
from ci_doctor.load.looks import AnswerLooks

# The outcome of a request in one start: a digest over its passes, None if a pass has no answer.
Answer = str | None


class ArmStart(Struct, frozen=True, kw_only=True):
    """What one start of an arm answered. An `archived` start was made by an earlier build.

    `answers` maps every request id to its outcome at the level of the gate, and `levels` does so at
    each level that is known. `failed`: a service died or was never ready. `outside`: the cause of
    that lies outside the change. `claimed`: only the service's own log says so. `prompts` maps a request to what the server reports of its prompt, by the name of the fact
    (`prompt_tokens`: "7"); facts that it does not report are absent. `empty` counts answers without
    any text. `proof_missing` holds one sentence for each required proof that is absent. `looks` is
    what the answers look like beside each other. `control` is what came of the request with a
    changed prompt; None if this start got none. `build` names the build that made an archived
    start; None if it is unknown. `devices` is its CUDA_VISIBLE_DEVICES, if it was drawn.
    """

    arm: Arm
    number: int
    answers: Mapping[str, Answer] = {}
    levels: Mapping[AnswerLevel, Mapping[str, Answer]] = {}
    failed: bool = False
    outside: bool = False
    claimed: bool = False
    prompts: Mapping[str, Mapping[str, str]] = {}
    empty: int = 0
    proof_missing: tuple[str, ...] = ()
    archived: bool = False
    build: str | None = None
    looks: AnswerLooks = AnswerLooks()
    control: ControlOutcome | None = None
    devices: str = ""

    @property
    def name(self) -> str:
        """`A1`, `B2`; `a1` for an archived start."""
        letter = self.arm.letter.lower() if self.archived else self.arm.letter
        return f"{letter}{self.number}"

    @property
    def answered(self) -> int:
        """How many requests have an answer."""
        return len(self.answers) - list(self.answers.values()).count(None)


class DifferenceKind(StrEnum):
    """How the arms compare on one request."""

    # The same outcome in every start of both arms.
    EQUAL = "equal"
    # No baseline start answered, or there is no candidate start: nothing to compare.
    UNANSWERED = "unanswered"
    # The baseline varies, and the candidate shows only outcomes of the baseline.
    FLAKY = "flaky"
    # The baseline varies, and the candidate shows an outcome of its own.
    OWN = "own"
    # The baseline is always the same, the candidate only sometimes the same as it.
    SOMETIMES = "sometimes"
    # The baseline is always the same, the candidate never the same as it.
    CHANGED = "changed"


def of_arm(starts: Iterable[ArmStart], arm: Arm) -> list[ArmStart]:
    """The starts of one arm."""
    return [start for start in starts if start.arm is arm]


def restricted(starts: Iterable[ArmStart], requests: Collection[str]) -> list[ArmStart]:
    """The starts with their answers to these requests alone."""
    copies = []
    for start in starts:
        answers = {request: start.answers.get(request) for request in requests}
        copies.append(replace(start, answers=answers))
    return copies


def outcomes(starts: Iterable[ArmStart], request: str) -> set[Answer]:
    """The different outcomes of a request in these starts, a missing answer (None) included."""
    return {start.answers.get(request) for start in starts}


def failures(starts: Iterable[ArmStart]) -> int:
    """How many of these starts failed."""
    return sum(start.failed for start in starts)


def working(starts: Iterable[ArmStart]) -> int:
    """How many of these starts answered, and did not fail."""
    answered = [start for start in starts if start.answered]
    return len(answered) - failures(answered)


def only_device(starts: Sequence[ArmStart], everyone: Sequence[ArmStart]) -> str | None:
    """The device on which alone these starts ran, if nothing works there, and something elsewhere."""
    devices = {start.devices for start in starts}
    device = devices.pop() if len(devices) == 1 else ""
    there = [start for start in everyone if start.devices == device]
    elsewhere = [start for start in everyone if start.devices not in {device, ""}]
    return device if device and not working(there) and working(elsewhere) else None


def have_answers(starts: Iterable[ArmStart]) -> bool:
    """Whether any of these starts answered a request."""
    return any(start.answered for start in starts)


def classify(requests: Sequence[str], starts: Sequence[ArmStart]) -> dict[str, DifferenceKind]:
    """The kind of every request over the starts that count as evidence (see `counted`)."""
    usable = counted(starts)
    baseline = of_arm(usable, Arm.BASELINE)
    candidate = of_arm(usable, Arm.CANDIDATE)
    kinds = {}
    for request in requests:
        kinds[request] = _kind(outcomes(baseline, request), outcomes(candidate, request))
    return kinds


def counted(starts: Iterable[ArmStart]) -> list[ArmStart]:
    """The starts whose answers count as evidence.

    Left out are starts that failed for a reason outside the change. If today's baseline answers
    otherwise than the archive (see `drift_of`), the archived starts are left out too: then this is
    another machine, whatever its identity says. (After that choice the test over the remaining
    starts is not exact; but it removes evidence against the candidate as well as evidence for it.)
    """
    usable = [start for start in starts if not start.outside]
    if drift_of(usable) is None:
        return usable
    return [start for start in usable if not start.archived]


def drift_of(starts: Iterable[ArmStart]) -> ArchiveDrift | None:
    """How today's baseline starts answer otherwise than the archived ones; None if they do not.

    A candidate may differ for the change itself: only baseline starts speak for the machine.
    """
    archived = []
    today = []
    for start in of_arm(starts, Arm.BASELINE):
        if start.outside:
            continue
        if start.archived:
            archived.append(start.answers)
        elif start.answered:
            today.append(start.answers)
    return archive_drift(archived, today)


def _kind(baseline: set[Answer], candidate: set[Answer]) -> DifferenceKind:
    """The kind by the outcomes of both arms.

    None (no answer) is an outcome like any other, with one exception: a baseline start without an
    answer never excuses a candidate without one.
    """
    answers = baseline - {None}
    if not answers or not candidate:
        return DifferenceKind.UNANSWERED
    if len(baseline) > 1:
        if candidate <= answers:
            return DifferenceKind.FLAKY
        return DifferenceKind.OWN
    if candidate <= baseline:
        return DifferenceKind.EQUAL
    if candidate & baseline:
        return DifferenceKind.SOMETIMES
    return DifferenceKind.CHANGED


def answering(starts: Iterable[ArmStart]) -> list[ArmStart]:
    """The counted starts with an answer: two that answered nothing neither agree nor differ."""
    return [start for start in counted(starts) if start.answered]


def clusters(starts: Sequence[ArmStart]) -> tuple[tuple[str, ...], ...]:
    """The names of the starts that answered everything alike, grouped; by first appearance."""
    groups: dict[tuple[tuple[str, Answer], ...], list[str]] = {}
    for start in counted(starts):
        answers = tuple(sorted(start.answers.items()))
        names = groups.setdefault(answers, [])
        names.append(start.name)
    return tuple(tuple(names) for names in groups.values())


def explain(kind: DifferenceKind) -> str:
    """A kind in words."""
    match kind:
        case DifferenceKind.EQUAL:
            return "the same in every start of both arms"
        case DifferenceKind.UNANSWERED:
            return "answered by no baseline start, or never sent to the candidate"
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
