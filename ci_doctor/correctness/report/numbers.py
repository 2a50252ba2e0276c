# SPDX-License-Identifier: Apache-2.0
"""Where the log-probabilities of two choices with the same tokens differ first. Pure."""

from msgspec import Struct

from ci_doctor.correctness.report.hardness import ulp_between
from ci_doctor.correctness.report.tokens import Choice, Step, chat_entries, common, step

_BEFORE = 8  # tokens; a drift of the numbers shows there before it flips a token
_SHOWN_BEFORE = 20


class NumberDifference(Struct, frozen=True, kw_only=True):
    """The first token whose log-probabilities differ.

    `position` counts tokens from 0. `gap` is the greatest difference there in nat, `ulp` that of
    the generated tokens' own numbers in units in the last place of float32. `before` is the text of
    the tokens before it, `left` and `right` the tokens.
    """

    position: int
    gap: float
    ulp: int | None
    before: str
    left: str
    right: str


def number_difference(left: Choice, right: Choice) -> NumberDifference | None:
    """The first difference of numbers, all tokens being the same; None if no token can be named."""
    at = _first_differing(left, right)
    if at is None:
        return None
    one = step(left, at)
    other = step(right, at)
    if one is None or other is None:
        return None
    gaps = _gaps(one, other)
    if not gaps:
        return None
    return NumberDifference(
        position=at,
        gap=max(gaps),
        ulp=ulp_between(one, other),
        before=_text_before(left, at),
        left=one.token,
        right=other.token,
    )


def _first_differing(left: Choice, right: Choice) -> int | None:
    """The first position whose entries differ, in a chat's form or a completion's; None if none."""
    ours = chat_entries(left)
    theirs = chat_entries(right)
    if ours and theirs:
        return common(ours, theirs)
    one = left.get("logprobs")
    other = right.get("logprobs")
    if not isinstance(one, dict) or not isinstance(other, dict):
        return None
    # A completion keeps two parallel lists: either may be the first to differ.
    positions = []
    for key in ("token_logprobs", "top_logprobs"):
        at = _list_difference(one.get(key), other.get(key))
        if at is not None:
            positions.append(at)
    return min(positions, default=None)


def _list_difference(left: object, right: object) -> int | None:
    if not isinstance(left, list) or not isinstance(right, list):
        return None
    if left == right:
        return None
    return common(left, right)


def _gaps(one: Step, other: Step) -> list[float]:
    """The differences in nat of the token itself, and of each alternative that both sides list."""
    gaps = []
    if one.logprob is not None and other.logprob is not None:
        gap = abs(one.logprob - other.logprob)
        gaps.append(gap)
    theirs = {each.name: each.logprob for each in other.top}
    for each in one.top:
        logprob = theirs.get(each.name)
        # What only one side lists has no number on the other: how far it moved is unknown.
        if logprob is not None:
            gap = abs(each.logprob - logprob)
            gaps.append(gap)
    return gaps


def _text_before(choice: Choice, at: int) -> str:
    begin = max(0, at - _SHOWN_BEFORE)
    tokens = []
    for index in range(begin, at):
        before = step(choice, index)
        if before is not None:
            tokens.append(before.token)
    return "".join(tokens)


def ulp_before(left: Choice, right: Choice, at: int) -> int | None:
    """The greatest distance of log-probabilities among the last tokens before position `at`.

    In units in the last place of float32; None if none is reported there.
    """
    begin = max(0, at - _BEFORE)
    distances = []
    for index in range(begin, at):
        one = step(left, index)
        other = step(right, index)
        if one is None or other is None:
            continue
        distance = ulp_between(one, other)
        if distance is not None:
            distances.append(distance)
    return max(distances, default=None)
