# SPDX-License-Identifier: Apache-2.0
"""Where two JSON values differ, as a path. Pure."""

from collections.abc import Mapping
from typing import Any

from ci_doctor.load.canonical import encode

_Position = tuple[str, Any, Any]


def first_field(left: Any, right: Any, path: str = "") -> _Position:
    """The path of the first value in which two JSON values differ, and both values.

    `path` is that of the two values themselves. Without one, the path of a value that is neither an
    object nor a list is `output`.
    """
    position = path, left, right
    # A loop and not recursion: JSON may be nested deeper than Python's stack.
    while True:
        below = _below(*position)
        if below is None:
            break
        position = below
    where, one, other = position
    return where or "output", one, other


def _below(path: str, left: Any, right: Any) -> _Position | None:
    """The first difference one level below; None if these two values are the difference."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return _first_key(path, left, right)
    if isinstance(left, list) and isinstance(right, list):
        return _first_item(path, left, right)
    return None


def _first_key(path: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> _Position | None:
    """The first key, in alphabetical order, whose values differ; an absent one counts as null."""
    keys = {*left, *right}
    for key in sorted(keys):
        one = left.get(key)
        other = right.get(key)
        if not differ(one, other):
            continue
        below = key
        if path:
            below = f"{path}.{key}"
        return below, one, other
    return None


def _first_item(path: str, left: list[Any], right: list[Any]) -> _Position:
    pairs = zip(left, right, strict=False)
    for index, (one, other) in enumerate(pairs):
        if differ(one, other):
            return f"{path}[{index}]", one, other
    # One list is the beginning of the other. The numbers end the descent.
    return f"len({path})", len(left), len(right)


def differ(left: object, right: object) -> bool:
    """Whether two JSON values have different digests."""
    # Python alone is not enough: 1, 1.0 and True are equal to it, and so are 0.0 and -0.0.
    return left != right or encode(left) != encode(right)
