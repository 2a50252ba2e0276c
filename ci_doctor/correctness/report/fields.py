# SPDX-License-Identifier: Apache-2.0
"""Where two JSON values differ, as a path. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from ci_doctor.load.canonical import encode


def first_field(left: Any, right: Any, path: str = "") -> tuple[str, Any, Any]:
    """The path of the first value in which two JSON values differ, and both values."""
    for path_, one, other in _descend(left, right, path):
        path, left, right = path_, one, other
    return path or "output", left, right


def _descend(left: Any, right: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Each step on the way down to the first difference. Not recursive: JSON may be nested as deep as a stack."""
    while True:
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            keys = [key for key in sorted({*left, *right}) if differ(left.get(key), right.get(key))]
            if not keys:
                return
            path, left, right = (
                f"{path}.{keys[0]}" if path else keys[0],
                left.get(keys[0]),
                right.get(keys[0]),
            )
        elif isinstance(left, list) and isinstance(right, list):
            at = next(
                (i for i, pair in enumerate(zip(left, right, strict=False)) if differ(*pair)), None
            )
            if at is None:
                yield f"len({path})", len(left), len(right)
                return
            path, left, right = f"{path}[{at}]", left[at], right[at]
        else:
            return
        yield path, left, right


def differ(left: object, right: object) -> bool:
    """As digests do: 1, 1.0 and True are one to Python, and 0.0 equals -0.0."""
    return left != right or encode(left) != encode(right)
