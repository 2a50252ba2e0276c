# SPDX-License-Identifier: Apache-2.0
"""Pure. Log-probabilities in the form in which they are compared: as float32.

A server computes them in float32 or less, and prints them with few digits or many. Three forms
are known: the lists of legacy completions (`token_logprobs`, `top_logprobs`: token -> number), the
entries of chats (`content`: a list of `{"token", "logprob", "top_logprobs"}`), and vLLM's
`prompt_logprobs` (a list of token id -> `{"logprob", "rank"}`).
"""

from collections.abc import Mapping
from typing import Any

from ci_doctor.load.float32 import nearest

# Parts without a log-probability in them; the first two are most of a large answer.
_AS_THEY_ARE = frozenset({"bytes", "tokens", "text_offset", "token", "decoded_token", "rank"})


def comparable(value: Any) -> Any:
    """A choice's `logprobs` as compared; None if it holds nothing.

    null and an empty list are the same as an absent part.
    """
    if isinstance(value, dict):
        value = {key: part for key, part in value.items() if part not in (None, [])}
    if not value:
        return None
    return as_float32(value)


def as_float32(value: Any) -> Any:
    """`value` with each log-probability as the double of its nearest float32.

    A log-probability is every number with a fraction or an exponent, and an integer in the place
    of one. Other integers stay as they are.
    """
    if isinstance(value, list):
        return _of_list(value)
    if isinstance(value, dict):
        return _of_object(value)
    if isinstance(value, float):
        return nearest((value,))[0]
    return value


def _of_list(values: list[Any]) -> list[Any]:
    # Most lists are of floats alone, and one call for all of them is fast.
    if set(map(type, values)) == {float}:
        return list(nearest(values))
    return [as_float32(each) for each in values]


def _of_object(value: dict[str, Any]) -> dict[str, Any]:
    """An entry of a chat, a set of lists, or any other object."""
    result = {}
    for key, part in value.items():
        if key in {"logprob", "token_logprobs"}:
            result[key] = _numbers(part)
        elif key in _AS_THEY_ARE:
            result[key] = part
        elif key == "top_logprobs" and isinstance(part, list):
            result[key] = [_alternatives(each) for each in part]
        else:
            result[key] = as_float32(part)
    return result


def _alternatives(value: Any) -> Any:
    """Those of one token. The legacy form holds nothing but numbers.

    Its keys are tokens, and one may be called "rank" or "bytes".
    """
    if not isinstance(value, Mapping):
        return as_float32(value)
    numbers = list(value.values())
    if not all(map(_is_number, numbers)):
        return as_float32(value)
    rounded = _rounded(numbers)
    return dict(zip(value, rounded, strict=True))


def _numbers(value: Any) -> Any:
    """A log-probability, or a list of them with gaps; integers are numbers here."""
    if isinstance(value, list):
        return _with_gaps(value)
    if _is_number(value):
        return _rounded([value])[0]
    return value


def _with_gaps(values: list[Any]) -> list[Any]:
    """Each number rounded, anything else in its place; the first token has None for a number."""
    places = [place for place, value in enumerate(values) if _is_number(value)]
    rounded = _rounded([values[place] for place in places])
    result = list(values)
    for place, number in zip(places, rounded, strict=True):
        result[place] = number
    return result


def _is_number(value: Any) -> bool:
    # By type: True is an int.
    return type(value) in {float, int}


def _rounded(values: list[Any]) -> list[Any]:
    try:
        return list(nearest(values))
    except OverflowError:
        # An integer beyond all doubles is no log-probability, and is compared as it stands.
        return values
