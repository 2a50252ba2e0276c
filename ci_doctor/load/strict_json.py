# SPDX-License-Identifier: Apache-2.0
"""Pure. JSON without what two readers may take in different ways."""

import json
from collections import Counter
from typing import Any, NoReturn


def parse(text: bytes | str) -> Any:
    """The value of a JSON text (RFC 8259).

    Raises ValueError, with the reason, for what is not JSON, for NaN and Infinity, for text that is
    not Unicode, for a key that stands twice in one object (one reader takes the first, one the
    last), and for nesting too deep to read.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_only_once)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # The parser itself keeps the last of equal keys, without a word.
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    repeated = _first_repeated(pairs)
    # Cut off: a key may be as long as the whole text.
    shown = json.dumps(repeated)[:80]
    raise ValueError(f"the key {shown} stands twice in one object")


def _first_repeated(pairs: list[tuple[str, Any]]) -> str | None:
    keys = [key for key, _ in pairs]
    for key, count in Counter(keys).items():
        if count > 1:
            return key
    return None
