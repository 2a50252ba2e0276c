# SPDX-License-Identifier: Apache-2.0
"""The generated tokens of a choice, how far apart two of them are, and where their numbers differ. Pure.

Three forms are read: `token_ids`, a chat's `logprobs.content[]`, and a completion's
`logprobs.tokens` with its parallel lists (OpenAI's API reference). Servers write anything into
these fields. A value of any other form counts as absent.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from ci_doctor.load.choices import ulp_distance
from ci_doctor.model.facts.correctness import Divergence, Hardness, PositionUnit

# --- the generated tokens of a choice, with their log-probabilities if the server reports them ---

Choice = Mapping[str, Any]


class _Token(Struct, frozen=True, kw_only=True):
    """A token: its text, and its bytes if reported."""

    token: str
    bytes: tuple[int, ...] | None = None

    @property
    def name(self) -> object:
        """What identifies the token.

        Tokens that are not whole characters may share one text (U+FFFD), but never their bytes.
        """
        return self.token if self.bytes is None else self.bytes


class Alternative(_Token, frozen=True, kw_only=True):
    """A candidate token and its log-probability in nat."""

    logprob: float


class Step(_Token, frozen=True, kw_only=True):
    """One generated token and its alternatives.

    `top` are the most probable tokens at this position, the best first. The token itself may be one
    of them. `logprob` is in nat, None if the server does not report it.
    """

    logprob: float | None = None
    top: tuple[Alternative, ...] = ()


def token_lists(left: Choice, right: Choice) -> tuple[list[Any], list[Any]] | None:
    """The tokens of two choices in the same form; None if one of them reports none.

    Ids come before texts: two ids may decode to one text.
    """
    for tokens in (_ids, _texts):
        one, other = tokens(left), tokens(right)
        if one and other:
            return one, other
    return None


def _ids(choice: Choice) -> list[Any]:
    ids = choice.get("token_ids")
    return ids if isinstance(ids, list) else []


def _texts(choice: Choice) -> list[Any]:
    return [
        (entry.get("token"), entry.get("bytes")) if isinstance(entry, dict) else None
        for entry in chat_entries(choice)
    ] or _legacy(choice, "tokens")


def chat_entries(choice: Choice) -> list[Any]:
    """`logprobs.content`, one entry a token; empty if there is none."""
    return _legacy(choice, "content")


def _legacy(choice: Choice, key: str) -> list[Any]:
    """One of the lists under `logprobs`."""
    logprobs = choice.get("logprobs")
    values = logprobs.get(key) if isinstance(logprobs, dict) else None
    return values if isinstance(values, list) else []


def step(choice: Choice, index: int) -> Step | None:
    """The token at 0-based `index`; None if the choice reports nothing for it."""
    ids, entries, texts = _ids(choice), chat_entries(choice), _legacy(choice, "tokens")
    # Ids and log-probabilities are matched by position. That holds only for lists of one length: a
    # server may count a stop token in one list and not in the other.
    if ids and len(entries or texts) not in {0, len(ids)}:
        entries = texts = []
    if index < len(entries) and isinstance(entries[index], dict):
        listed = entries[index].get("top_logprobs")
        return _step(entries[index], listed if isinstance(listed, list) else ())
    if index < len(texts):
        # The parallel lists of a completion need not have one length.
        own, listed = (
            values[index] if index < len(values) else None
            for values in (_legacy(choice, "token_logprobs"), _legacy(choice, "top_logprobs"))
        )
        pairs = listed.items() if isinstance(listed, dict) else ()
        return _step(
            {"token": str(texts[index]), "logprob": own},
            [{"token": word, "logprob": value} for word, value in pairs],
        )
    return Step(token=f"token {ids[index]}") if index < len(ids) else None


def _step(entry: Choice, listed: Iterable[Any]) -> Step:
    """The token of an entry of a chat's form, with those that are listed beside it."""
    top = []
    for each in listed:
        logprob = number(each.get("logprob")) if isinstance(each, dict) else None
        if logprob is not None:
            token, its_bytes = str(each.get("token", "")), _bytes(each.get("bytes"))
            top.append(Alternative(token=token, logprob=logprob, bytes=its_bytes))
    return Step(
        token=str(entry.get("token", "")),
        logprob=number(entry.get("logprob")),
        bytes=_bytes(entry.get("bytes")),
        top=tuple(sorted(top, key=lambda each: -each.logprob)),
    )


def _bytes(value: object) -> tuple[int, ...] | None:
    # `type`, not isinstance: True is an int to Python, and no byte.
    if not isinstance(value, list) or any(type(each) is not int for each in value):
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


class _Gap(NamedTuple):
    """The distance of two tokens in nat; `is_hard`: rounding cannot explain it."""

    nat: float
    is_hard: bool


def compare_steps(left: Step, right: Step) -> tuple[Hardness, float | None]:
    """How hard two different tokens at one step differ, and how far apart they are in nat."""
    if left.name == right.name:
        # Ids that differ below one text: the log-probabilities are keyed by text, and cannot tell
        # the two apart.
        return Hardness.UNKNOWN, None
    gaps = [gap for gap in (_gap(left, right.name), _gap(right, left.name)) if gap is not None]
    if any(gap.is_hard for gap in gaps):
        return Hardness.HARD, max(gap.nat for gap in gaps)
    # One side alone can prove that a difference is hard, but not that it is a near-tie.
    if len(gaps) < 2:
        return Hardness.UNKNOWN, None
    return Hardness.NEAR_TIE, max(gap.nat for gap in gaps)


def _gap(step: Step, other: object) -> _Gap | None:
    """How far the token named `other` is from the generated one; None if no other is listed."""
    alternatives = {each.name: each.logprob for each in step.top}
    own = alternatives.get(step.name) if step.logprob is None else step.logprob
    if own is None or not alternatives.keys() - {step.name}:
        return None
    if other in alternatives:
        distance = abs(own - alternatives[other])
        return _Gap(distance, is_hard=distance >= NEAR_NAT)
    # An unlisted token is at most as probable as the least probable listed one. A generated token
    # below all listed ones (sampling) would give a negative distance.
    return _Gap(max(0.0, own - min(alternatives.values())), is_hard=True)


def ulp_between(left: Step | None, right: Step | None) -> int | None:
    """The distance of two log-probabilities in units in the last place of float32.

    None if one of them is not reported.
    """
    if left is None or right is None or left.logprob is None or right.logprob is None:
        return None
    return ulp_distance(left.logprob, right.logprob)


# --- where the log-probabilities of two choices with the same tokens differ first ---

_BEFORE = 8  # tokens; a drift of the numbers shows there before it flips a token
_SHOWN_BEFORE = 20


def number_difference(left: Choice, right: Choice) -> Divergence | None:
    """The first difference of numbers, all tokens being the same; None if no token can be named.

    Its `gap` is the greatest there, of the token itself and of what both sides list, and `ulp` that of
    the generated tokens' own numbers.
    """
    at = _first_differing(left, right)
    one, other = (None, None) if at is None else (step(left, at), step(right, at))
    if at is None or one is None or other is None:
        return None
    theirs = {each.name: each.logprob for each in other.top}
    # What only one side lists has no number on the other: how far it moved is unknown.
    pairs = [(each.logprob, theirs.get(each.name)) for each in one.top]
    pairs_with_own = [(one.logprob, other.logprob), *pairs]
    gaps = [abs(a - b) for a, b in pairs_with_own if a is not None and b is not None]
    if not gaps:
        return None
    before = [step(left, index) for index in range(max(0, at - _SHOWN_BEFORE), at)]
    return Divergence(
        field="logprobs",
        hardness=Hardness.NUMBERS,
        unit=PositionUnit.TOKEN,
        position=at,
        gap=max(gaps),
        ulp=ulp_between(one, other),
        before="".join(each.token for each in before if each),
        left=one.token,
        right=other.token,
    )


def _first_differing(left: Choice, right: Choice) -> int | None:
    """The first position whose entries differ, in a chat's form or a completion's; None if none."""
    ours, theirs = chat_entries(left), chat_entries(right)
    if ours and theirs:
        return common(ours, theirs)
    one, other = left.get("logprobs"), right.get("logprobs")
    if not isinstance(one, dict) or not isinstance(other, dict):
        return None
    # A completion keeps two parallel lists: either may be the first to differ.
    lists = [(one.get(key), other.get(key)) for key in ("token_logprobs", "top_logprobs")]
    positions = [
        common(a, b) for a, b in lists if isinstance(a, list) and isinstance(b, list) and a != b
    ]
    return min(positions, default=None)


def ulp_before(left: Choice, right: Choice, at: int) -> int | None:
    """The greatest distance of log-probabilities among the last tokens before position `at`.

    In units in the last place of float32; None if none is reported there.
    """
    places = range(max(0, at - _BEFORE), at)
    distances = [ulp_between(step(left, index), step(right, index)) for index in places]
    return max((each for each in distances if each is not None), default=None)
