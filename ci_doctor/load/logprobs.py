# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities in the form in which they are compared: float32, and nothing where nothing is told. Pure.

A server computes them in float32 or less, and prints them shortly or at length. Three forms are known: the lists of
legacy completions (`token_logprobs`, `top_logprobs`: token -> number), the entries of chats (`content`: a list of
`{"token", "logprob", "top_logprobs"}`), and vLLM's `prompt_logprobs` (a list of token id -> `{"logprob", "rank"}`).
"""

from collections.abc import Mapping
from typing import Any

from ci_doctor.load.float32 import nearest

# Parts without a log-probability in them; the first two are most of a large answer.
_AS_THEY_ARE = ("bytes", "tokens", "text_offset", "token", "decoded_token", "rank")


def told(value: Any) -> Any:
    """A choice's `logprobs` as compared, None where it tells nothing: null and an empty list are the same as absent."""
    if isinstance(value, dict):
        value = {key: part for key, part in value.items() if part is not None and part != []}
    return as_float32(value) if value else None


def as_float32(value: Any) -> Any:
    """`value` with each log-probability as the double of its nearest float32; other integers stay what they are.

    A log-probability is every number with a fraction or an exponent, and an integer where one stands by its place.
    """
    if isinstance(value, list):
        return _of_list(value)
    if isinstance(value, dict):
        return _of_object(value)
    return nearest((value,))[0] if isinstance(value, float) else value


def _of_list(values: list[Any]) -> list[Any]:
    if values and all(type(each) is float for each in values):
        return list(nearest(values))
    return [as_float32(each) for each in values]


def _of_object(value: dict[str, Any]) -> dict[str, Any]:
    """An entry of a chat, a set of lists, or any other object; alternatives by token are told apart by their place."""
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
    """Of one token: the legacy form holds nothing but numbers, whatever its tokens are called."""
    if isinstance(value, Mapping) and all(type(each) in {float, int} for each in value.values()):
        return dict(zip(value, _rounded(list(value.values())), strict=True))
    return as_float32(value)


def _numbers(value: Any) -> Any:
    """A log-probability, or a list of them with gaps; integers are numbers here."""
    if isinstance(value, list):
        known = [each for each in value if type(each) in {float, int}]
        rounded = iter(_rounded(known))
        return [next(rounded) if type(each) in {float, int} else each for each in value]
    return _rounded([value])[0] if type(value) in {float, int} else value


def _rounded(values: list[Any]) -> list[Any]:
    try:
        return list(nearest(values))
    except (
        OverflowError
    ):  # an integer beyond all doubles: no log-probability, compared as it stands
        return values
