# SPDX-License-Identifier: Apache-2.0
"""JSON without what one reader takes one way and the next another. Pure."""

import json
from typing import Any, NoReturn


def parse(text: bytes | str) -> Any:
    """The value of a JSON text (RFC 8259).

    Raises ValueError, saying why, for what is not JSON, for NaN and Infinity, for text that is not Unicode, for a key
    that stands twice in one object (one reader takes the first, one the last), and for nesting too deep to read.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_only_once)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {json.dumps(twice)[:80]} stands twice in one object")
    return value
