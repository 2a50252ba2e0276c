# SPDX-License-Identifier: Apache-2.0
"""Pure. Text from logs and answers, made harmless for a terminal, a page and an XML parser."""

import re
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.model.outcome import Report

# ECMA-48 control strings (OSC, DCS, APC, PM, SOS; Buildkite's own timestamps are APC), CSI
# sequences, two-character escapes.
_ESCAPES = re.compile(
    r"(?:\x1b[\]P_^X]|[\x9d\x90\x9f\x9e\x98])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# What is left of C0 and C1, the bidirectional overrides that reorder a line on screen
# (CVE-2021-42574), lone surrogates, and the two code points that XML 1.0 excludes.
_CONTROLS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_Printed = TypeVar("_Printed", bound=Struct)
_AROUND_LINE_END = re.compile(r" *\n\s*")
_SURROGATES = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def cleaned(struct: _Printed) -> _Printed:
    """`struct` with every string printable: no escapes, one kind of line end, spaces for tabs."""
    changed: _Printed = _change(struct, printable)
    return changed


def encodable(report: Report) -> Report:
    """`report` with every string encodable as UTF-8.

    Lone surrogates (bytes that were not UTF-8) become U+FFFD.
    """
    changed: Report = _change(report, _encodable_text)
    return changed


def _encodable_text(text: str) -> str:
    return _SURROGATES.sub(_REPLACEMENT, text)


def printable(text: str) -> str:
    r"""`text` with nothing in it that acts: only printable characters and `\n`."""
    # Most texts are, and the test is one pass without a copy.
    if text.isprintable():
        return text
    # Escapes go first: once ESC itself is replaced, the rest of a sequence would stay as text.
    text = _ESCAPES.sub("", text)
    text = _LINE_ENDS.sub("\n", text).expandtabs(4)
    return _CONTROLS.sub(_REPLACEMENT, text)


def one_line(text: str) -> str:
    """`text` (printable) for a place that holds one line; each line end becomes a space."""
    line = text.strip()
    # By far the most of them: a report has a case for each test.
    if "\n" not in line:
        return line
    return _AROUND_LINE_END.sub(" ", line)


def _change(value: Any, change: Callable[[str], str]) -> Any:
    """A tree of structs, mappings and lists, with `change` applied to each string in it."""
    match value:
        # A StrEnum is one of our own words, and a changed one would no longer be its member.
        case str() if not isinstance(value, Enum):
            return change(value)
        case Struct():
            return _change_struct(value, change)
        case dict():
            return _change_mapping(value, change)
        case tuple() | list():
            items = [_change(item, change) for item in value]
            return type(value)(items)
        case _:
            return value


def _change_struct(struct: Struct, change: Callable[[str], str]) -> Struct:
    changed = {}
    for name, field in asdict(struct).items():
        # By far the most of them: a report has a case for each test.
        if field is None or type(field) is float or field == ():
            continue
        new = _change(field, change)
        if new is not field:
            changed[name] = new
    return replace(struct, **changed) if changed else struct


def _change_mapping(mapping: dict[Any, Any], change: Callable[[str], str]) -> dict[Any, Any]:
    changed = {}
    for key, value in mapping.items():
        # Keys too: those of `facts` are names from a log or a requests file.
        name = _change(key, change)
        changed[name] = _change(value, change)
    return changed


def diff_name(name: str) -> str:
    """`name` in a line of a diff, as git writes it (core.quotePath in git-config(1)): an odd one as a text of C."""
    if name.isprintable() and not {'"', "\\"} & set(name):
        # Behind a tab git looks for no name: one with spaces ends there.
        return f"{name}\t" if " " in name else name
    characters = []
    for byte in name.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        is_plain = 0x20 <= byte < 0x7F and character not in {'"', "\\"}
        characters.append(character if is_plain else f"\\{byte:03o}")
    return f'"{"".join(characters)}"'
