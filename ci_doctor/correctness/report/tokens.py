# SPDX-License-Identifier: Apache-2.0
"""The generated tokens of a choice, how far apart two of them are, and where their numbers differ. Pure.

Three forms are read: `token_ids`, a chat's `logprobs.content[]`, and a completion's
`logprobs.tokens` with its parallel lists (OpenAI's API reference). Servers write anything into
these fields. A value of any other form counts as absent.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from ci_doctor.load.choices import ulp_distance

# --- the generated tokens of a choice, with their log-probabilities if the server reports them ---
# Three forms are read: `token_ids`, a chat's `logprobs.content[]`, and a completion's
# `logprobs.tokens` with its parallel lists (OpenAI's API reference). Servers write anything into
# these fields. A value of any other form counts as absent.

Choice = Mapping[str, Any]


class Alternative(Struct, frozen=True, kw_only=True):
    """A candidate token: its text, its log-probability in nat, and its bytes if reported."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None

    @property
    def name(self) -> object:
        """What identifies the token.

        Tokens that are not whole characters may share one text (U+FFFD), but never their bytes.
        """
        return self.token if self.bytes is None else self.bytes


class Step(Struct, frozen=True, kw_only=True):
    """One generated token and its alternatives.

    `top` are the most probable tokens at this position, the best first. The token itself may be one
    of them. `logprob` is in nat, None if the server does not report it.
    """

    token: str
    logprob: float | None = None
    bytes: tuple[int, ...] | None = None
    top: tuple[Alternative, ...] = ()

    @property
    def name(self) -> object:
        """As an alternative's."""
        return self.token if self.bytes is None else self.bytes


def token_lists(left: Choice, right: Choice) -> tuple[list[Any], list[Any]] | None:
    """The tokens of two choices in the same form; None if one of them reports none.

    Ids come before texts: two ids may decode to one text.
    """
    for tokens in (_ids, _texts):
        one = tokens(left)
        other = tokens(right)
        if one and other:
            return one, other
    return None


def _ids(choice: Choice) -> list[Any]:
    ids = choice.get("token_ids")
    return ids if isinstance(ids, list) else []


def _texts(choice: Choice) -> list[Any]:
    entries = chat_entries(choice)
    if not entries:
        return _legacy(choice, "tokens")
    texts: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            texts.append((entry.get("token"), entry.get("bytes")))
        else:
            texts.append(None)
    return texts


def chat_entries(choice: Choice) -> list[Any]:
    """`logprobs.content`, one entry a token; empty if there is none."""
    return _legacy(choice, "content")


def _legacy(choice: Choice, key: str) -> list[Any]:
    """One of the lists under `logprobs`."""
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return []
    values = logprobs.get(key)
    return values if isinstance(values, list) else []


def step(choice: Choice, index: int) -> Step | None:
    """The token at 0-based `index`; None if the choice reports nothing for it."""
    ids = _ids(choice)
    entries = chat_entries(choice)
    texts = _legacy(choice, "tokens")
    # Ids and log-probabilities are matched by position. That holds only for lists of one length: a
    # server may count a stop token in one list and not in the other.
    if ids and len(entries or texts) not in {0, len(ids)}:
        entries = []
        texts = []
    if index < len(entries) and isinstance(entries[index], dict):
        return _chat_step(entries[index])
    if index < len(texts):
        return _legacy_step(choice, index, str(texts[index]))
    if index < len(ids):
        return Step(token=f"token {ids[index]}")
    return None


def _chat_step(entry: dict[str, Any]) -> Step:
    alternatives = []
    listed = entry.get("top_logprobs")
    if isinstance(listed, list):
        for each in listed:
            alternative = _chat_alternative(each)
            if alternative is not None:
                alternatives.append(alternative)
    return Step(
        token=str(entry.get("token", "")),
        logprob=number(entry.get("logprob")),
        bytes=_bytes(entry.get("bytes")),
        top=_best_first(alternatives),
    )


def _chat_alternative(entry: object) -> Alternative | None:
    if not isinstance(entry, dict):
        return None
    logprob = number(entry.get("logprob"))
    if logprob is None:
        return None
    return Alternative(
        token=str(entry.get("token", "")),
        logprob=logprob,
        bytes=_bytes(entry.get("bytes")),
    )


def _legacy_step(choice: Choice, index: int, token: str) -> Step:
    alternatives = []
    listed = _item(_legacy(choice, "top_logprobs"), index)
    if isinstance(listed, dict):
        for word, value in listed.items():
            logprob = number(value)
            if logprob is not None:
                alternatives.append(Alternative(token=word, logprob=logprob))
    own = _item(_legacy(choice, "token_logprobs"), index)
    return Step(token=token, logprob=number(own), top=_best_first(alternatives))


def _item(values: list[Any], index: int) -> Any:
    # The parallel lists of a completion need not have one length.
    if index < len(values):
        return values[index]
    return None


def _best_first(alternatives: list[Alternative]) -> tuple[Alternative, ...]:
    return tuple(sorted(alternatives, key=lambda each: -each.logprob))


def _bytes(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    # `type`, not isinstance: True is an int to Python, and no byte.
    if any(type(each) is not int for each in value):
        return None
    return tuple(value)


def number(value: object) -> float | None:
    """A JSON number as a double; None for anything else, and for an integer beyond all doubles."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def common(left: Sequence[Any], right: Sequence[Any]) -> int:
    """The length of the longest common prefix of two sequences."""
    # Bisection: comparing two slices is one call in C, a loop over ten million characters is not.
    least = 0
    most = min(len(left), len(right))
    while least < most:
        middle = (least + most + 1) // 2
        if left[least:middle] == right[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least


# --- how hard two sides differ at one token: whether rounding is enough to flip it ---

# Two tokens whose log-probabilities are closer than this (in nat) can change places by rounding
# alone: in bfloat16, with 8 bits of precision, a logit of 16 to 32 moves in steps of 0.125 (IEEE
# 754 arithmetic, not a measurement).
NEAR_NAT = 0.1


class Hardness(StrEnum):
    """What kind of difference it is; the hardest first."""

    # The other side's token is outside the most probable ones, or NEAR_NAT or more away.
    HARD = "hard"
    # One answer is the beginning of the other, or they stopped for different reasons.
    LENGTH = "length"
    # No log-probabilities at this token.
    UNKNOWN = "unknown"
    # One side has no answer, or not this choice.
    MISSING = "missing"
    # The same words; only log-probabilities differ.
    NUMBERS = "numbers"
    # Each side's token is among the other's most probable ones, less than NEAR_NAT away.
    NEAR_TIE = "near-tie"


class _Gap(NamedTuple):
    """The distance of two tokens in nat; `outside`: one is not listed, so it is at least so far."""

    nat: float
    outside: bool

    @property
    def hard(self) -> bool:
        """Whether rounding cannot explain it."""
        return self.outside or self.nat >= NEAR_NAT


def compare_steps(left: Step, right: Step) -> tuple[Hardness, float | None]:
    """How hard two different tokens at one step differ, and how far apart they are in nat."""
    if left.name == right.name:
        # Ids that differ below one text: the log-probabilities are keyed by text, and cannot tell
        # the two apart.
        return Hardness.UNKNOWN, None
    ours = _gap(left, right.name)
    theirs = _gap(right, left.name)
    if ours is None or theirs is None:
        return _one_sided(ours or theirs)
    widest = max(ours.nat, theirs.nat)
    if ours.hard or theirs.hard:
        return Hardness.HARD, widest
    return Hardness.NEAR_TIE, widest


def _one_sided(gap: _Gap | None) -> tuple[Hardness, float | None]:
    # One side alone can prove that a difference is hard, but not that it is a near-tie.
    if gap is not None and gap.hard:
        return Hardness.HARD, gap.nat
    return Hardness.UNKNOWN, None


def _gap(step: Step, other: object) -> _Gap | None:
    """How far the token named `other` is from the generated one; None if no other is listed."""
    alternatives = {each.name: each.logprob for each in step.top}
    own = step.logprob
    if own is None:
        own = alternatives.get(step.name)
    others = alternatives.keys() - {step.name}
    if own is None or not others:
        return None
    if other in alternatives:
        distance = abs(own - alternatives[other])
        return _Gap(distance, outside=False)
    # An unlisted token is at most as probable as the least probable listed one.
    least = min(alternatives.values())
    # A generated token below all listed ones (sampling) would give a negative distance.
    distance = max(0.0, own - least)
    return _Gap(distance, outside=True)


def ulp_between(left: Step, right: Step) -> int | None:
    """The distance of two log-probabilities in units in the last place of float32.

    None if one of them is not reported.
    """
    if left.logprob is None or right.logprob is None:
        return None
    return ulp_distance(left.logprob, right.logprob)


# --- where the log-probabilities of two choices with the same tokens differ first ---

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
