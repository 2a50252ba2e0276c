# SPDX-License-Identifier: Apache-2.0
"""Pure. Values as TOML (https://toml.io/en/v1.0.0), in the form that a person would choose."""

import json
import re
from collections.abc import Sequence
from typing import Final

_PLAIN: Final = re.compile(r"[^'\x00-\x08\x0a-\x1f\x7f]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_WIDEST: Final = 90


def toml_string(text: str) -> str:
    """A string: a literal one if quotes would have to be escaped."""
    text = text.encode("utf-8", "replace").decode()
    if ('"' in text or "\\" in text) and _PLAIN.fullmatch(text):
        return f"'{text}'"
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(name: str) -> str:
    """A key, quoted if it must be."""
    return name if _BARE_KEY.fullmatch(name) else toml_string(name)


def toml_list(words: Sequence[str]) -> str:
    """A list of strings, one a line if they are too long for one line."""
    written = [toml_string(word) for word in words]
    line = f"[{', '.join(written)}]"
    if len(line) <= _WIDEST:
        return line
    inner = "".join(f"  {each},\n" for each in written)
    return f"[\n{inner}]"


def toml_table(values: dict[str, str]) -> str:
    """A table of strings in one line."""
    pairs = [f"{toml_key(name)} = {toml_string(value)}" for name, value in values.items()]
    return f"{{ {', '.join(pairs)} }}"
