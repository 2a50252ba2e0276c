# SPDX-License-Identifier: Apache-2.0
"""What one start of an arm answered, and what came of its control. Pure.

The control is a copy of a request with a changed prompt, sent on purpose: starts may agree because
no server reads its prompts, or because a cache answers for them. Then the changed prompt gets the
answer of the original, too.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.settings import AnswerLevel, Arm, Rules
from ci_doctor.load.looks import AnswerLooks
from ci_doctor.model.facts.correctness import ControlOutcome, ControlResult


class ControlTry(Struct, frozen=True, kw_only=True):
    """One copy of `request` that was sent: exactly one of `same` and `error` is set.

    `same`: its answer is that of the original. `telling`: by chance it could hardly be.
    """

    request: str
    telling: bool
    same: bool | None = None
    error: str | None = None


def control_outcome(tries: Sequence[ControlTry]) -> ControlOutcome:
    """The outcome of all controls that one start got."""
    if not tries:
        return ControlOutcome(result=ControlResult.IMPOSSIBLE)
    answered = [each for each in tries if each.same is not None]
    for each in answered:
        if not each.same:
            return ControlOutcome(result=ControlResult.CHANGED, request=each.request)
    for each in answered:
        if each.telling:
            return ControlOutcome(result=ControlResult.SAME, request=each.request)
    if answered:
        return ControlOutcome(result=ControlResult.UNDECIDED, request=answered[0].request)
    first = tries[0]
    return ControlOutcome(result=ControlResult.UNANSWERED, request=first.request, error=first.error)


def with_inside(outcome: ControlOutcome, tries: Sequence[ControlTry]) -> ControlOutcome:
    """`outcome`, whose control changed the answer, beside what other words inside a prompt changed."""
    answered = [each for each in tries if each.same is not None]
    if answered and all(each.same for each in answered):
        return ControlOutcome(result=ControlResult.PARTLY, request=answered[0].request)
    return outcome


# The outcome of a request in one start: a digest over its passes, None if a pass has no answer.
Answer = str | None


class ArmStart(Struct, frozen=True, kw_only=True):
    """What one start of an arm answered. An `archived` start was made by an earlier build.

    `answers` maps every request id to its outcome at the level of the gate, and `levels` does so at
    each level that is known. `failed`: a service died or was never ready. `outside`: the cause of
    that lies outside the change. `claimed`: only the service's own log says so. `of_job`: a process
    of this job is that cause, so another run meets it again. `prompts` maps a request to what the
    server reports of its prompt, by the name of the fact (`prompt_tokens`: "7"); facts that it does
    not report are absent. `empty` counts answers without any text, `in_part` the requests with an answer in some
    passes and not in all: these are not compared. `proof_missing` holds one sentence for each required proof that is absent. `looks` is
    what the answers look like beside each other. `control` is what came of the request with a
    changed prompt; None if this start got none. `build` names the build that made an archived
    start; None if it is unknown. `devices` is its CUDA_VISIBLE_DEVICES, if it was drawn. `agent` names the
    kind of agent on which it ran, if several agents share the starts: those of two kinds are never compared.
    """

    arm: Arm
    number: int
    answers: Mapping[str, Answer] = {}
    levels: Mapping[AnswerLevel, Mapping[str, Answer]] = {}
    failed: bool = False
    outside: bool = False
    claimed: bool = False
    of_job: bool = False
    prompts: Mapping[str, Mapping[str, str]] = {}
    empty: int = 0
    in_part: int = 0
    proof_missing: tuple[str, ...] = ()
    archived: bool = False
    build: str | None = None
    looks: AnswerLooks = AnswerLooks()
    control: ControlOutcome | None = None
    devices: str = ""
    agent: str = ""

    @property
    def name(self) -> str:
        """`A1`, `B2`; `a1` for an archived start."""
        letter = self.arm.letter.lower() if self.archived else self.arm.letter
        return f"{letter}{self.number}"

    @property
    def place(self) -> str:
        """The device that was drawn, or the kind of agent, in words; nothing if neither is known."""
        if self.devices:
            return f"device {self.devices}"
        return f"an agent of the kind {self.agent}" if self.agent else ""

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
    """The device, or the kind of agent, on which alone these starts ran.

    None unless nothing works there, and something elsewhere.
    """
    places = {start.place for start in starts}
    place = places.pop() if len(places) == 1 else ""
    there = [start for start in everyone if start.place == place]
    elsewhere = [start for start in everyone if start.place not in {place, ""}]
    return place if place and not working(there) and working(elsewhere) else None


def have_answers(starts: Iterable[ArmStart]) -> bool:
    """Whether any of these starts answered a request."""
    return any(start.answered for start in starts)


def replaces_baseline(starts: Iterable[ArmStart], rules: Rules) -> bool:
    """Whether the archived ones of `starts` stand in for a baseline start of today."""
    return independent_builds(starts) >= rules.archive_builds


def independent_builds(starts: Iterable[ArmStart]) -> int:
    """How many independent builds made the archived ones of these starts."""
    return len(by_build(starts))


def by_build(starts: Iterable[ArmStart]) -> dict[str | None, list[ArmStart]]:
    """The archived ones of these starts, by their build.

    Starts of unknown builds (None) count as one build together: nothing shows that they are more.
    """
    builds: dict[str | None, list[ArmStart]] = {}
    for start in starts:
        if start.archived:
            builds.setdefault(start.build, []).append(start)
    return builds
