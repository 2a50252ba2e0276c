# SPDX-License-Identifier: Apache-2.0
"""Pure. Tags within the limits of Test Engine, which refuses the whole execution otherwise.

https://buildkite.com/docs/test-engine/test-suites/tags
"""

import re
from collections.abc import Iterable, Mapping

from ci_doctor.render.safe_text import one_line, printable

MOST_TAGS = 10
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
_VALUE_BYTES = 127


def tags_of(values: Mapping[str, object]) -> dict[str, str]:
    """The first ten of `values` that are known and not blank, each in one line below 128 bytes.

    Raises ValueError for a key that Test Engine refuses: keys are ours and not data.
    """
    _check(values)
    tags: dict[str, str] = {}
    for key, value in values.items():
        text = "" if value is None else _short(str(value))
        if text and len(tags) < MOST_TAGS:
            tags[key] = text
    return tags


def _check(keys: Iterable[str]) -> None:
    names = list(keys)
    for key in names:
        is_reserved = key == "mut" or key.startswith("mut.")
        is_prefix = any(other.startswith(f"{key}.") for other in names)
        if _KEY.fullmatch(key) is None or is_reserved or is_prefix:
            raise ValueError(f"Test Engine takes no tag {key!r}")


def _short(text: str) -> str:
    line = one_line(printable(text[: _VALUE_BYTES * 4]))
    encoded = line.encode(errors="replace")[:_VALUE_BYTES]
    return encoded.decode(errors="ignore").strip()
