# SPDX-License-Identifier: Apache-2.0
"""What came of the control: a copy of a request with a changed prompt, sent on purpose. Pure.

Starts may agree because no server reads its prompts, or because a cache answers for them. Then the
changed prompt gets the answer of the original, too.
"""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct


class ControlResult(StrEnum):
    """What a control shows of a server."""

    # A changed prompt changed the answer.
    CHANGED = "changed"
    # No changed prompt changed the answer.
    SAME = "same"
    # A changed prompt changed the answer, and one with the same length and the same ends did not.
    PARTLY = "partly"
    # The answer is the same, and so short or so restricted that it may be so by chance.
    UNDECIDED = "undecided"
    # No control was answered.
    UNANSWERED = "unanswered"
    # No request has a prompt that can be changed.
    IMPOSSIBLE = "impossible"


class ControlTry(Struct, frozen=True, kw_only=True):
    """One copy of `request` that was sent: exactly one of `same` and `error` is set.

    `same`: its answer is that of the original. `telling`: by chance it could hardly be.
    """

    request: str
    telling: bool
    same: bool | None = None
    error: str | None = None


class ControlOutcome(Struct, frozen=True, kw_only=True):
    """The result, the id of the request on which it rests, and the error of one without an answer."""

    result: ControlResult
    request: str = ""
    error: str | None = None

    @property
    def is_decisive(self) -> bool:
        """Whether another start of the arm needs no control."""
        return self.result in {ControlResult.CHANGED, ControlResult.SAME, ControlResult.PARTLY}

    def in_words(self) -> str:
        """What the control showed, as a part of a sentence."""
        match self.result:
            case ControlResult.CHANGED:
                return f"{self.request} with a changed prompt got another answer"
            case ControlResult.SAME:
                return (
                    f"the server gives {self.request} and a changed prompt the same answer: "
                    "it does not read the prompt, or a cache answers for it"
                )
            case ControlResult.PARTLY:
                return (
                    f"{self.request} with other words inside its prompt gets an answer that was given "
                    "before: the server reads no more than the length or the ends of a prompt"
                )
            case ControlResult.UNDECIDED:
                return (
                    f"{self.request} and a changed prompt got the same answer, "
                    "which is too short or too restricted to mean anything"
                )
            case ControlResult.UNANSWERED:
                return f"{self.request} with a changed prompt got no answer: {self.error}"
            case ControlResult.IMPOSSIBLE:
                return "no request has a prompt that can be changed, so no control was sent"


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
