# SPDX-License-Identifier: Apache-2.0
"""A condition on a JSON document, such as `data[0].id == "qwen"`. Pure.

    condition = path | path operator value        value = any JSON value
    operator  = "==" | "!=" | ">" | ">=" | "<" | "<="
    path      = key, then any of: .key  [0]  ["any key"]      key = letters, digits, "_", "-"

A path alone holds if it exists and is neither null, false, 0 nor empty. In a list, a key of digits
is an index.
"""

import json
import operator
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ci_doctor.model.shortened import shortened

_STEP = re.compile(r'\.?([A-Za-z0-9_-]+)|\[(-?\d+)\]|\[("(?:[^"\\]|\\.)*")\]', re.ASCII)
_REST = re.compile(r"\s*(?:(==|!=|>=|<=|>|<)\s*(.+))?\s*", re.DOTALL)
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
# An answer of /v1/models may be long: a sentence shows only the beginning of a value.
_LONGEST_SHOWN = 80


class JsonCondition(Struct, frozen=True, kw_only=True):
    """`text` as written; `steps` lead into the document.

    Without `operator` the value that they lead to must be truthy.
    """

    text: str
    steps: tuple[str | int, ...]
    operator: str | None = None
    value: Any = None

    def problem(self, document: Any) -> str | None:
        """Why it does not hold for `document`, as a clause; None if it does."""
        try:
            actual = _walk(document, self.steps)
        except LookupError as error:
            return str(error.args[0])
        if self._holds_for(actual):
            return None
        return f"it is {_shown(actual)}"

    def _holds_for(self, actual: Any) -> bool:
        if self.operator is None:
            return bool(actual)
        return _holds(self.operator, actual, self.value)


def parse_condition(text: str) -> JsonCondition:
    """The condition that `text` writes. Raises ValueError with a sentence for the user."""
    steps, end = _parse_path(text)
    rest = _REST.fullmatch(text, end)
    if not steps or rest is None:
        raise ValueError(
            f"json = {text!r} is no path into a document, with or without a comparison "
            '(data[0].id == "qwen")'
        )
    name, value_text = rest.groups()
    if name is None:
        return JsonCondition(text=text, steps=steps)
    try:
        value = json.loads(value_text)
    except ValueError as error:
        raise ValueError(
            f"json = {text!r}: {value_text.strip()} is no JSON value; a text stands in double "
            'quotes ("ready")'
        ) from error
    return JsonCondition(text=text, steps=steps, operator=name, value=value)


def _parse_path(text: str) -> tuple[tuple[str | int, ...], int]:
    """The steps of the path that `text` begins with, and where it ends."""
    steps: list[str | int] = []
    position = len(text) - len(text.lstrip())
    while step := _STEP.match(text, position):
        # A dot or a bracket stands between two steps, and no dot before the first.
        mark = text[position]
        if steps and mark not in ".[":
            break
        if not steps and mark == ".":
            break
        steps.append(_step(step))
        position = step.end()
    return tuple(steps), position


def _step(step: re.Match[str]) -> str | int:
    key, index, quoted = step.groups()
    if index is not None:
        return int(index)
    if key is not None:
        return str(key)
    return str(json.loads(quoted))


def _walk(document: Any, steps: tuple[str | int, ...]) -> Any:
    """What `steps` lead to. Raises LookupError with the clause that says where they end."""
    value = document
    for number, step in enumerate(steps, start=1):
        try:
            value = _member(value, step)
        except (LookupError, TypeError, ValueError):  # the last two: neither a list nor a table
            raise LookupError(f"there is no {_written(steps[:number])}") from None
    return value


def _member(value: Any, step: str | int) -> Any:
    # A key of digits is an index here, as the grammar above has it.
    if isinstance(value, list):
        return value[int(step)]
    # dict() refuses what is no table; a text would be indexed by a number.
    return dict(value)[step]


def _written(steps: tuple[str | int, ...]) -> str:
    """A path as a person writes it: `data[0].id`."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _holds(name: str, actual: Any, value: Any) -> bool:
    if name in _ORDER:
        # Python raises TypeError for an order between a text and a number.
        return _comparable(actual, value) and _ORDER[name](actual, value)
    return _same(actual, value) is (name == "==")


def _comparable(one: Any, other: Any) -> bool:
    if isinstance(one, str):
        return isinstance(other, str)
    return _is_number(one) and _is_number(other)


def _is_number(value: Any) -> bool:
    # In Python bool is a subclass of int; in JSON true is no number.
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float)


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; numbers are compared by value, so 1 is 1.0."""
    if isinstance(one, list) and isinstance(other, list):
        return _same_items(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return _same_values(one, other)
    # In Python True == 1; in JSON they differ, also deep inside.
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _same_items(one: list[Any], other: list[Any]) -> bool:
    # map() would stop at the end of the shorter list.
    if len(one) != len(other):
        return False
    return all(map(_same, one, other))


def _same_values(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if one.keys() != other.keys():
        return False
    return all(_same(one[key], other[key]) for key in one)


def _shown(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), _LONGEST_SHOWN)
