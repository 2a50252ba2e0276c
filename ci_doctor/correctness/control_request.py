# SPDX-License-Identifier: Apache-2.0
"""Which requests are sent with a changed prompt, and which start gets them. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.load.prompts import PromptChange, changed_body, is_free, prompt_of
from ci_doctor.load.requests import Request, protocol_of

# How many different words an answer has, and how many characters.
Variety = tuple[int, int]
_PREFIX = "control:"
# A prompt of so many characters is within the context of any model.
_IS_READ_WHOLE = 400
# The middle third of so many characters has several letters.
_HAS_MIDDLE = 40


class ControlRequest(Struct, frozen=True, kw_only=True):
    """A `request` to send, which is the request `original` with a changed prompt.

    `telling`: the two answers can hardly be the same by chance. `by_tokens`: their words or tokens must
    differ, and not their numbers alone.
    """

    original: str
    request: Request
    telling: bool
    by_tokens: bool


def is_due(arm: Arm, starts: Iterable[ArmStart]) -> bool:
    """Whether the next start of an arm gets a control: no earlier one of today has decided it."""
    for start in starts:
        if start.arm is arm and start.control is not None and start.control.is_decisive:
            return False
    return True


def control_requests(
    requests: Sequence[Request], variety: Mapping[str, Variety]
) -> Iterator[ControlRequest]:
    """At most two controls, the better one first; none if no prompt can be changed.

    `variety` holds each request that the start has answered.
    """
    answered = [each for each in requests if each.id in variety and not _is_echo(each)]
    # The sort is stable: of equal ones the first of the file is taken.
    ranked = sorted(answered, key=lambda each: _rank(each, variety[each.id]), reverse=True)
    changeable = [each for each in ranked if _is_changeable(each)]
    if not changeable:
        return
    first = changeable[0]
    yield _control(first, PromptChange.REVERSED, variety)
    yield _control(_another(changeable), PromptChange.REPLACED, variety)


def inside_requests(
    requests: Sequence[Request], variety: Mapping[str, Variety]
) -> Iterator[tuple[ControlRequest, ...]]:
    """Controls with another middle of the prompt, in groups; what two of a group show is no chance.

    Of the shortest prompts that have a middle the most is changed. Of longer ones more is left at the
    ends. Those that a server may cut, or of which only the end may matter, are left out.
    """
    answered = [each for each in requests if each.id in variety and not _is_echo(each)]
    telling = [
        each for each in answered if _is_changeable(each) and _is_telling(each, variety[each.id])
    ]
    by_prompt = {prompt_of(each): each for each in telling}
    by_prompt = {text: each for text, each in by_prompt.items() if len(text) <= _IS_READ_WHOLE}
    ranked = sorted(by_prompt, key=lambda prompt: (len(prompt) < _HAS_MIDDLE, len(prompt)))
    long = sorted(ranked, key=len, reverse=True)
    for prompts in dict.fromkeys((tuple(ranked[:2]), tuple(long[:2]))):
        if len(prompts) > 1:
            yield tuple(_control(by_prompt[each], PromptChange.INSIDE, variety) for each in prompts)


def _is_changeable(request: Request) -> bool:
    if not protocol_of(request).prompted:
        return False
    return changed_body(request, PromptChange.REVERSED) is not None


def _is_echo(request: Request) -> bool:
    """Whether the answer repeats the prompt: then it changes with it, whoever answers."""
    return bool(request.body.get("echo"))


def _rank(request: Request, variety: Variety) -> tuple[bool, Variety]:
    """The longer and the freer an answer, the more it would differ."""
    return _is_telling(request, variety), variety


def _is_telling(request: Request, variety: Variety) -> bool:
    # Vectors and scores of two prompts are never the same, digit by digit.
    if not protocol_of(request).sampled:
        return True
    words, _ = variety
    messages = request.body.get("messages") or ()
    # A system message may demand one of a few words, whatever the user writes.
    is_label = words <= 1 and len(messages) > 1
    return is_free(request) and not is_label


def _another(ranked: Sequence[Request]) -> Request:
    """The best one with another prompt than the first; the first if all have the same."""
    first = ranked[0]
    for request in ranked:
        if prompt_of(request) != prompt_of(first):
            return request
    return first


def _control(
    original: Request, change: PromptChange, variety: Mapping[str, Variety]
) -> ControlRequest:
    body = changed_body(original, change)
    assert body is not None  # noqa: S101 - both changes take the same prompts
    inside = "inside:" if change is PromptChange.INSIDE else ""
    request = replace(original, id=f"{_PREFIX}{inside}{original.id}", body=body)
    return ControlRequest(
        original=original.id,
        request=request,
        telling=_is_telling(original, variety[original.id]),
        # A label may rightly be the same. Then its numbers are what a changed prompt changes.
        by_tokens=is_free(original),
    )
