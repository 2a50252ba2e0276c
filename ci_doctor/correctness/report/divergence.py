# SPDX-License-Identifier: Apache-2.0
"""Where two canonical outputs diverge, and how hard. Pure.

By token if both sides report their tokens, else by character; by item if the answers are vectors, scores or ranks.

Tokens are read in three forms: `token_ids`, a chat's `logprobs.content[]`, and a completion's
`logprobs.tokens` with its parallel lists (OpenAI's API reference). Servers write anything into
these fields. A value of any other form counts as absent.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.load.answer_items import ItemKind, item_numbers, items_of, ulp_distance
from ci_doctor.load.canonical import encode, text_of
from ci_doctor.model.facts.correctness import Divergence, Hardness, NumbersApart, PositionUnit

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
        for entry in _logprobs(choice, "content")
    ] or _logprobs(choice, "tokens")


def _logprobs(choice: Choice, key: str) -> list[Any]:
    """One of the lists under `logprobs`: `content` has one entry a token; empty if there is none."""
    logprobs = choice.get("logprobs")
    values = logprobs.get(key) if isinstance(logprobs, dict) else None
    return values if isinstance(values, list) else []


def step(choice: Choice, index: int) -> Step | None:
    """The token at 0-based `index`; None if the choice reports nothing for it."""
    ids, entries, texts = _ids(choice), _logprobs(choice, "content"), _logprobs(choice, "tokens")
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
            for values in (_logprobs(choice, "token_logprobs"), _logprobs(choice, "top_logprobs"))
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


def compare_steps(left: Step, right: Step) -> tuple[Hardness, float | None]:
    """How hard two different tokens at one step differ, and how far apart they are in nat."""
    if left.name == right.name:
        # Ids that differ below one text: the log-probabilities are keyed by text, and cannot tell
        # the two apart.
        return Hardness.UNKNOWN, None
    gaps = [gap for gap in (_gap(left, right.name), _gap(right, left.name)) if gap is not None]
    if any(is_hard for _, is_hard in gaps):
        return Hardness.HARD, max(nat for nat, _ in gaps)
    # One side alone can prove that a difference is hard, but not that it is a near-tie.
    if len(gaps) < 2:
        return Hardness.UNKNOWN, None
    return Hardness.NEAR_TIE, max(nat for nat, _ in gaps)


def _gap(step: Step, other: object) -> tuple[float, bool] | None:
    """How far the token named `other` is from the generated one in nat, and whether rounding cannot explain it.

    None if no other token is listed.
    """
    alternatives = {each.name: each.logprob for each in step.top}
    own = alternatives.get(step.name) if step.logprob is None else step.logprob
    if own is None or not alternatives.keys() - {step.name}:
        return None
    if other in alternatives:
        distance = abs(own - alternatives[other])
        return distance, distance >= NEAR_NAT
    # An unlisted token is at most as probable as the least probable listed one. A generated token
    # below all listed ones (sampling) would give a negative distance.
    return max(0.0, own - min(alternatives.values())), True


def ulp_between(left: Step | None, right: Step | None) -> int | None:
    """The distance of two log-probabilities in units in the last place of float32.

    None if one of them is not reported.
    """
    if left is None or right is None or left.logprob is None or right.logprob is None:
        return None
    return ulp_distance(left.logprob, right.logprob)


# --- where the log-probabilities of two choices with the same tokens differ first ---

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
    ours, theirs = _logprobs(left, "content"), _logprobs(right, "content")
    if ours and theirs:
        return common(ours, theirs)
    # A completion keeps two parallel lists: either may be the first to differ.
    positions = []
    for key in ("token_logprobs", "top_logprobs"):
        one, other = _logprobs(left, key), _logprobs(right, key)
        if one and other and one != other:
            positions.append(common(one, other))
    return min(positions, default=None)


# --- what a person reads of a choice, part by part, and the text around a difference ---

_MESSAGE_PARTS = ("reasoning_content", "reasoning", "content", "refusal")


# The text that both sides share, then what follows in each.
Excerpt = tuple[str, str, str]


def around(left: str, right: str, width: int) -> Excerpt:
    """The first difference of two texts, with `width` characters before and after."""
    at = common(left, right)
    end = at + width
    before = left[max(0, at - width) : at]
    return encodable(before), encodable(left[at:end]), encodable(right[at:end])


def encodable(text: str) -> str:
    """`text` in a form that UTF-8 can hold: a model may generate half of a surrogate pair."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def as_json(value: object) -> str:
    """A value as canonical JSON."""
    return json.dumps(value, sort_keys=True)


def parts_of(choice: Choice) -> dict[str, str]:
    """What a person reads of a choice: text, reasoning, content, refusal, tool calls, by name."""
    values = {"text": choice.get("text")}
    message = choice.get("message")
    if isinstance(message, dict):
        values.update({name: message.get(name) for name in _MESSAGE_PARTS})
        calls = message.get("tool_calls")
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            values[f"tool_calls[{index}].name"] = call.get("name")
            values[f"tool_calls[{index}].arguments"] = call.get("arguments")
    return {
        name: value if isinstance(value, str) else as_json(value)
        for name, value in values.items()
        if value is not None
    }


def whole_text(choice: Choice) -> str:
    """All parts of a choice, in lines."""
    return "\n".join(parts_of(choice).values())


def differing_part(left: Choice, right: Choice) -> str:
    """The name of the first part in which two choices differ, or else of the first part."""
    one, other = parts_of(left), parts_of(right)
    names = list(one | other)
    for name in names:
        if one.get(name) != other.get(name):
            return name
    # Equal texts and other tokens: the same words, cut into tokens in another way.
    return names[0] if names else "token_ids"


# --- where two JSON values differ, as a path ---

_Position = tuple[str, Any, Any]


def first_field(left: Any, right: Any, path: str = "") -> _Position:
    """The path of the first value in which two JSON values differ, and both values.

    `path` is that of the two values themselves. Without one, the path of a value that is neither an
    object nor a list is `output`.
    """
    where, one, other = path, left, right
    # A loop and not recursion: JSON may be nested deeper than Python's stack.
    while (below := _below(where, one, other)) is not None:
        where, one, other = below
    return where or "output", one, other


def _below(path: str, left: Any, right: Any) -> _Position | None:
    """The first difference one level below; None if these two values are the difference."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        # In alphabetical order; an absent one counts as null.
        for key in sorted({*left, *right}):
            one, other = left.get(key), right.get(key)
            if differ(one, other):
                return f"{path}.{key}" if path else key, one, other
        return None
    if not isinstance(left, list) or not isinstance(right, list):
        return None
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if differ(one, other):
            return f"{path}[{index}]", one, other
    # One list is the beginning of the other. The numbers end the descent.
    return f"len({path})", len(left), len(right)


def differ(left: object, right: object) -> bool:
    """Whether two JSON values have different digests."""
    # Python alone is not enough: 1, 1.0 and True are equal to it, and so are 0.0 and -0.0.
    return left != right or encode(left) != encode(right)


# --- the first item (vector, score, label, rank) in which two answers differ, and how far ---

_Item = Mapping[str, Any]
# As a report names them: the keys of an item that stand for words, and the numbers of each kind.
_WORDS = {"label": "label", "index": "rank", "document": "document of rank"}
_NUMBERS = {
    ItemKind.VECTOR: "vector",
    ItemKind.LABEL: "probabilities",
    ItemKind.SCORE: "score",
    ItemKind.RANK: "score of rank",
}


def _in_items(left: Mapping[str, Any], right: Mapping[str, Any]) -> Divergence | None:
    """The first vector, score, label or rank that differs; None if every one is the same."""
    noun = _NUMBERS.get(left.get("kind", ""), "numbers")
    ours = items_of(left) or []
    theirs = items_of(right) or []
    is_single = len(ours) == len(theirs) == 1
    for index, (one, other) in enumerate(zip_longest(ours, theirs)):
        if one is None or other is None:
            return Divergence(field=f"items[{index}]", choice=index, hardness=Hardness.MISSING)
        # Nearly every request has one text: its number would only be in the way.
        number = "" if is_single else f" {index}"
        for key, word in _WORDS.items():
            if one.get(key) != other.get(key):
                return Divergence(
                    field=f"{word}{number}",
                    choice=index,
                    left=_item_text(one, key),
                    right=_item_text(other, key),
                )
        difference = _of_numbers(item_numbers(one), item_numbers(other), f"{noun}{number}")
        if difference is not None:
            return replace(difference, choice=index)
    return None


def _of_numbers(ours: Sequence[float], theirs: Sequence[float], name: str) -> Divergence | None:
    if len(ours) != len(theirs):
        left, right = f"{len(ours):,} numbers", f"{len(theirs):,} numbers"
        return Divergence(field=name, hardness=Hardness.LENGTH, left=left, right=right)
    apart = numbers_apart(ours, theirs)
    if apart is None:
        return None
    before = ""
    if apart.count > 1:
        size = f"of {apart.count:,}"
        name = f"{name} ({size} numbers)" if name[-1].isdigit() else f"{name} {size}"
        before = f"number {apart.first}: "
    return Divergence(
        field=name,
        hardness=Hardness.NUMBERS,
        before=before,
        # Nine digits tell any two float32 apart.
        left=f"{ours[apart.first]:.9g}",
        right=f"{theirs[apart.first]:.9g}",
        ulp=apart.ulp,
        apart=apart,
    )


def _item_text(item: _Item, key: str) -> str:
    value = item.get(key)
    text = value if isinstance(value, str) else as_json(value)
    if key == "document":
        return text
    # The numbers tell whether it was close.
    numbers = " ".join(f"{number:.6g}" for number in item_numbers(item)[:4])
    return f"{text} ({numbers})"


def numbers_apart(left: Sequence[float], right: Sequence[float]) -> NumbersApart | None:
    """How far two lists of as many finite numbers lie apart; None if all are bit for bit equal."""
    places = [
        place
        for place, (one, other) in enumerate(zip(left, right, strict=True))
        # 0.0 and -0.0 are equal to Python, and two different answers.
        if one != other or math.copysign(1.0, one) != math.copysign(1.0, other)
    ]
    if not places:
        return None
    return NumbersApart(
        count=len(left),
        places=len(places),
        first=places[0],
        largest=max(abs(left[place] - right[place]) for place in places),
        ulp=max(ulp_distance(left[place], right[place]) for place in places),
        cosine=_cosine_distance(left, right),
    )


def _cosine_distance(left: Sequence[float], right: Sequence[float]) -> float | None:
    """1 - cos of the angle between two vectors; None for single numbers and without a direction."""
    ours = math.hypot(*left)
    theirs = math.hypot(*right)
    if len(left) == 1 or not ours or not theirs:
        return None
    # Not 1 - cos: that would lose all digits of a small angle.
    squares = [(one / ours - other / theirs) ** 2 for one, other in zip(left, right, strict=True)]
    return math.fsum(squares) / 2


# --- where two canonical outputs diverge, and how hard ---
# By token if both sides report their tokens, else by character.

# `matched_stop` is SGLang's, `stop_reason` vLLM's, `finish_reason` everybody's.
_STOPS = ("finish_reason", "stop_reason", "matched_stop")


def first_divergence(
    left: Mapping[str, Any], right: Mapping[str, Any], width: int = 40
) -> Divergence:
    """The first position at which two outputs differ, with `width` characters around it.

    The first choice that differs counts: its tokens, then its text, then why it stopped, then its
    log-probabilities.
    """
    difference = None
    if items_of(left) is not None and items_of(right) is not None:
        difference = _in_items(left, right)
    else:
        for index, (one, other) in enumerate(zip_longest(_choices(left), _choices(right))):
            if one is None or other is None:
                return Divergence(
                    field=f"choices[{index}]", hardness=Hardness.MISSING, choice=index
                )
            if differ(one, other):
                difference = replace(_in_choice(one, other, index, width), choice=index)
                break
        ours, theirs = left.get("completion_tokens"), right.get("completion_tokens")
        # All choices are the same, and the server counts otherwise: tokens that it does not report.
        if difference is None and differ(ours, theirs):
            return Divergence(
                field="completion_tokens",
                hardness=Hardness.LENGTH,
                left=as_json(ours),
                right=as_json(theirs),
            )
    if difference is None:
        return _at_field(*first_field(left, right), width)
    return replace(
        difference,
        before=encodable(difference.before[-width:]),
        left=encodable(difference.left[:width]),
        right=encodable(difference.right[:width]),
    )


def no_answer(
    left: Mapping[str, Any] | None, right: Mapping[str, Any] | None, width: int = 40
) -> Divergence:
    """At least one side has no answer; the other's is shown from its beginning."""
    one, other = (
        "" if output is None else encodable(text_of(dict(output))[:width])
        for output in (left, right)
    )
    return Divergence(field="answer", hardness=Hardness.MISSING, left=one, right=other)


def choice_of(output: Mapping[str, Any], index: int) -> Choice:
    """The choice number `index` of an output; empty if it has none."""
    choices = _choices(output)
    return choices[index] if index < len(choices) else {}


def _choices(output: Mapping[str, Any]) -> list[Choice]:
    choices = output.get("choices")
    if not isinstance(choices, list):
        return []
    return [choice for choice in choices if isinstance(choice, dict)]


def _in_choice(left: Choice, right: Choice, index: int, width: int) -> Divergence:
    """The first difference of two choices that differ."""
    end, unit = len(whole_text(left)), PositionUnit.CHARACTER
    tokens = token_lists(left, right)
    if tokens is not None:
        ours, theirs = tokens
        if ours != theirs:
            return _at_token(left, right, common(ours, theirs), width)
        end, unit = len(ours), PositionUnit.TOKEN
    if parts_of(left) != parts_of(right):
        return _at_character(left, right, width)
    # The same words and another reason to stop.
    for key in _STOPS:
        if left.get(key) != right.get(key):
            return Divergence(
                field=f"choices[{index}].{key}",
                hardness=Hardness.LENGTH,
                unit=unit,
                position=end,
                before=whole_text(left)[-width:],
                left=f"{key} {as_json(left.get(key))}",
                right=f"{key} {as_json(right.get(key))}",
            )
    difference = None
    if differ(left.get("logprobs"), right.get("logprobs")):
        difference = number_difference(left, right)
    # What remains is no text, no token, no reason to stop and no number that can be named.
    return difference or _at_field(*first_field(left, right, f"choices[{index}]"), width)


def _at_token(left: Choice, right: Choice, at: int, width: int) -> Divergence:
    one, other = step(left, at), step(right, at)
    gap = None
    # One side has no token here: its answer is the beginning of the other.
    hardness = Hardness.LENGTH
    if one is not None and other is not None:
        hardness, gap = compare_steps(one, other)
    before, ours, theirs = around(whole_text(left), whole_text(right), width)
    if not ours and not theirs:
        # Tokens differ and the text does not: the same words, cut in another way. The tokens are
        # then all there is to show.
        ours, theirs = one.token if one else "", other.token if other else ""
    return Divergence(
        field=differing_part(left, right),
        hardness=hardness,
        unit=PositionUnit.TOKEN,
        position=at,
        before=before,
        left=ours,
        right=theirs,
        gap=gap,
    )


def _at_character(left: Choice, right: Choice, width: int) -> Divergence:
    name = differing_part(left, right)
    one, other = parts_of(left).get(name, ""), parts_of(right).get(name, "")
    before, ours, theirs = around(one, other, width)
    # The whole texts decide: a part that ends early is no shorter answer if another part follows.
    whole, rest = whole_text(left), whole_text(right)
    is_beginning = whole.startswith(rest) or rest.startswith(whole)
    return Divergence(
        field=name,
        hardness=Hardness.LENGTH if is_beginning else Hardness.UNKNOWN,
        position=common(one, other),
        before=before,
        left=ours,
        right=theirs,
    )


def _at_field(path: str, left: object, right: object, width: int) -> Divergence:
    before, ours, theirs = around(as_json(left), as_json(right), width)
    return Divergence(field=path, before=before, left=ours, right=theirs)
