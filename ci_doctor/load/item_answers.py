# SPDX-License-Identifier: Apache-2.0
"""Pure. An answer of `items` (vectors, labels, scores, ranks) in its canonical form."""

from collections.abc import Mapping
from typing import Any

from ci_doctor.load.answer_items import ItemKind, is_wordless, is_zero, words_of_item
from ci_doctor.load.canonical import Canonical, digest, meta_of, usage_of
from ci_doctor.load.choices import NotAnAnswerError

Item = dict[str, Any]


def listed(value: Any, key: str) -> list[Item]:
    """The objects in the list at `key` of a response. Raises NotAnAnswerError without any."""
    values = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(values, list) or not values:
        raise NotAnAnswerError(f"no `{key}` in the answer")
    for place, each in enumerate(values):
        if not isinstance(each, dict):
            raise NotAnAnswerError(f"`{key}[{place}]` is not an object")
    return values


def place_of(part: Item, at: int) -> int:
    """The `index` of one object, or else its place `at` in the list. Raises NotAnAnswerError."""
    index = part.get("index")
    if index is None:
        return at
    # By type: True is an int.
    if type(index) is not int or index < 0:
        raise NotAnAnswerError(f"the `index` of object {at} of the answer is no place in a list")
    return index


def in_order(items: list[Item], expected: int | None) -> list[Item]:
    """Items by their index: each place from 0 on once, `expected` in all (None: unknown)."""
    ordered = sorted(items, key=lambda item: item["index"])
    places = [item["index"] for item in ordered]
    if places != list(range(len(places))):
        raise NotAnAnswerError(f"the places of the answer are {places[:20]}, not each one once")
    if expected is not None and len(items) != expected:
        raise NotAnAnswerError(f"{len(items)} results in the answer, {expected} were requested")
    return ordered


def canonical_items(kind: ItemKind, items: list[Item], value: Any) -> Canonical:
    """The canonical form of `items`; `value` is the response that they come from.

    Raises NotAnAnswerError if there are none: of no vectors all are equal.
    """
    if not items:
        raise NotAnAnswerError(f"no {kind} in the answer")
    response: dict[str, Any] = value if isinstance(value, dict) else {}
    usage = usage_of(response.get("usage"))
    output = {"kind": str(kind), "items": items}
    whole_digest = digest(output)
    words_digest = whole_digest
    if not is_wordless(output):
        words_digest = digest([words_of_item(item) for item in items])
    return Canonical(
        output=output,
        digest=whole_digest,
        words_digest=words_digest,
        meta=meta_of(response, usage),
        prompt_facts=_prompt_facts(response, usage),
        empty=is_zero(output),
    )


def _prompt_facts(response: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    facts = {}
    if response.get("model") is not None:
        facts["model"] = response["model"]
    if "prompt_tokens" in usage:
        facts["prompt_tokens"] = usage["prompt_tokens"]
    return facts
