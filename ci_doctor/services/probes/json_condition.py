# SPDX-License-Identifier: Apache-2.0
"""A condition on a JSON document, as `data[0].id == "qwen"`: its small grammar and what it holds for. Pure.

    condition = path | path operator value        value = any JSON value
    operator  = "==" | "!=" | ">" | ">=" | "<" | "<="
    path      = key, then any of: .key  [0]  ["any key"]      key = letters, digits, "_", "-"

A path alone holds where it exists and is neither null, false, 0 nor empty. In a list, a key of digits is an index.
"""

import json
import operator
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

_STEP = re.compile(r'\.?([A-Za-z0-9_-]+)|\[(-?\d+)\]|\[("(?:[^"\\]|\\.)*")\]', re.ASCII)
_REST = re.compile(r"\s*(?:(==|!=|>=|<=|>|<)\s*(.+))?\s*", re.DOTALL)
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_LONGEST_SHOWN = 80


class JsonCondition(Struct, frozen=True, kw_only=True):
    """`text` as written; `steps` lead into the document; without `operator` what stands there must be truthy."""

    text: str
    steps: tuple[str | int, ...]
    operator: str | None = None
    value: Any = None

    def problem(self, document: Any) -> str | None:
        """Why it does not hold for `document`, as a clause; None where it does."""
        try:
            found = _walk(document, self.steps)
        except LookupError as error:
            return str(error.args[0])
        if self.operator is None:
            return None if found else f"it is {_shown(found)}"
        return None if _holds(self.operator, found, self.value) else f"it is {_shown(found)}"


def parse_condition(text: str) -> JsonCondition:
    """The condition that `text` writes. Raises ValueError with a sentence for the user."""
    steps, end = _parse_path(text)
    rest = _REST.fullmatch(text, end)
    if not steps or rest is None:
        example = 'data[0].id == "qwen"'
        raise ValueError(
            f"json = {text!r} is no path into a document, with or without a comparison ({example})"
        )
    if rest[1] is None:
        return JsonCondition(text=text, steps=steps)
    try:
        value = json.loads(rest[2])
    except ValueError as error:
        raise ValueError(
            f'json = {text!r}: {rest[2].strip()} is no JSON value; a text stands in double quotes ("ready")'
        ) from error
    return JsonCondition(text=text, steps=steps, operator=rest[1], value=value)


def _parse_path(text: str) -> tuple[tuple[str | int, ...], int]:
    steps: list[str | int] = []
    position = len(text) - len(text.lstrip())
    while step := _STEP.match(text, position):
        if (
            (text[position] not in ".[") if steps else (text[position] == ".")
        ):  # a dot stands between keys
            break
        steps.append(_step(step))
        position = step.end()
    return tuple(steps), position


def _step(step: re.Match[str]) -> str | int:
    key, index, quoted = step.groups()
    if index is not None:
        return int(index)
    return key if key is not None else str(json.loads(quoted))


def _walk(document: Any, steps: tuple[str | int, ...]) -> Any:
    """What `steps` lead to. Raises LookupError with the clause that says where they end."""
    found = document
    for number, step in enumerate(steps):
        try:
            found = found[int(step)] if isinstance(found, list) else dict(found)[step]
        except (LookupError, TypeError, ValueError):  # the last two: neither a list nor a table
            way = "".join(
                f"[{each}]" if isinstance(each, int) else f".{each}" for each in steps[: number + 1]
            )
            raise LookupError(f"there is no {way.removeprefix('.')}") from None
    return found


def _holds(name: str, found: Any, value: Any) -> bool:
    if name in _ORDER:
        return _comparable(found, value) and _ORDER[name](found, value)
    return _same(found, value) is (name == "==")


def _comparable(one: Any, other: Any) -> bool:
    return (_is_number(one) and _is_number(other)) or (
        isinstance(one, str) and isinstance(other, str)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    # In Python True == 1; in JSON they differ, also deep inside. Numbers are compared by value: 1 is 1.0.
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
