# SPDX-License-Identifier: Apache-2.0
"""Pure. The values in elements of `nvidia-smi -q -x`: None for what is none."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_UNITS: Final = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"([0-9]{1,15})\s*(\w*)")
_NUMBER = re.compile(r"[0-9]{1,18}")
# What stands in elements of a GPU that the driver cannot reach, or that must be reset first.
LOST = re.compile(r"GPU is lost|GPU requires reset|GPU is inaccessible|fallen off the bus")
# What the driver writes if it has no value, with or without brackets.
_NO_VALUE: Final = frozenset(
    {
        "",
        "n/a",
        "insufficient permissions",
        "unknown error",
        "err!",
        "not supported",
        "not found",
        "requested functionality has been deprecated",
    }
)


def first(element: "Element", *paths: str) -> str | None:
    """The value of the first of `paths` that has one."""
    for path in paths:
        value = value_of(element.findtext(path))
        if value is not None:
            return value
    return None


def value_of(text: str | None) -> str | None:
    """`text` without spaces; None for `N/A` and whatever else stands for no value."""
    word = (text or "").strip()
    if word.strip("[]").lower() in _NO_VALUE or LOST.search(word):
        return None
    return word


def answer(element: "Element", *paths: str) -> bool | None:
    """`Yes` or `No` of the first of `paths` that has a value; None for anything else."""
    value = first(element, *paths)
    if value not in {"Yes", "No"}:
        return None
    return value == "Yes"


def any_known(answers: Iterable[bool | None]) -> bool | None:
    """Whether one of the known answers is true; None if none is known."""
    known = [each for each in answers if each is not None]
    if not known:
        return None
    return any(known)


def count(element: "Element", path: str) -> int | None:
    """The whole number at `path`."""
    return number(element.findtext(path))


def number(text: str | None) -> int | None:
    """A whole number without a unit."""
    word = (text or "").strip()
    if _NUMBER.fullmatch(word) is None:
        return None
    return int(word)


def size(text: str | None) -> int | None:
    """Bytes of a size such as `81559 MiB`."""
    match = _SIZE.fullmatch(text or "")
    if match is None or match[2] not in _UNITS:
        return None
    return int(match[1]) * _UNITS[match[2]]
