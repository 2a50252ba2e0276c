# SPDX-License-Identifier: Apache-2.0
"""Pure. Edits of a text as a changed text, and as a unified diff, in time that is linear in its length."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from ci_doctor.lint.violation import Edit

_CONTEXT = 3


class _Block(Struct, frozen=True, kw_only=True):
    """Lines `first` to `last` (0-based, `last` excluded) of the old text, and what replaces them."""

    first: int
    last: int
    new: tuple[str, ...]


def edited(text: str, edits: Sequence[Edit]) -> str:
    """`text` after `edits`, which are in order and do not overlap."""
    parts = []
    end = 0
    for edit in edits:
        parts += [text[end : edit.start], edit.text]
        end = edit.end
    parts.append(text[end:])
    return "".join(parts)


def unified_diff(file: str, text: str, edits: Sequence[Edit]) -> str:
    """What `edits` change in `text`, as `git diff` shows it; empty if they change nothing."""
    lines = _lines(text)
    blocks = list(_blocks(lines, edits))
    if not blocks:
        return ""
    parts = [f"--- {_header_name(f'a/{file}')}\n+++ {_header_name(f'b/{file}')}\n"]
    shift = 0
    for hunk in _hunks(blocks):
        parts.append(_hunk(lines, hunk, shift))
        shift += sum(len(block.new) - (block.last - block.first) for block in hunk)
    return "".join(parts)


def _header_name(name: str) -> str:
    """`name` as git writes it in a diff: in C's quotes if a character of it would end the line."""
    if name.isprintable() and not {'"', "\\"} & set(name):
        # Behind a tab git looks for no name: one with spaces ends there.
        return f"{name}\t" if " " in name else name
    characters = []
    for byte in name.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        is_plain = 0x20 <= byte < 0x7F and character not in {'"', "\\"}
        characters.append(character if is_plain else f"\\{byte:03o}")
    return f'"{"".join(characters)}"'


def _lines(text: str) -> list[str]:
    """The lines with their ends; only a line feed ends one, as in git."""
    parts = text.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _blocks(lines: list[str], edits: Sequence[Edit]) -> Iterator[_Block]:
    """The edits, joined where they touch the same lines, without lines that stay as they are."""
    starts = [0, *accumulate(map(len, lines))]
    for group in _of_common_lines(starts, edits):
        first = bisect_right(starts, group[0].start) - 1
        last = max(bisect_right(starts, max(group[-1].end - 1, group[-1].start)), first + 1)
        last = min(last, len(lines))
        offset = starts[min(first, len(lines))]
        old = lines[first:last]
        moved = [
            Edit(file=each.file, start=each.start - offset, end=each.end - offset, text=each.text)
            for each in group
        ]
        new = _lines(edited("".join(old), moved))
        while old and new and old[0] == new[0]:
            old, new, first = old[1:], new[1:], first + 1
        while old and new and old[-1] == new[-1]:
            old, new = old[:-1], new[:-1]
        if old or new:
            yield _Block(first=first, last=first + len(old), new=tuple(new))


def _of_common_lines(starts: list[int], edits: Sequence[Edit]) -> Iterator[list[Edit]]:
    group: list[Edit] = []
    last = -1
    for edit in edits:
        first = bisect_right(starts, edit.start) - 1
        if group and first > last:
            yield group
            group = []
        group.append(edit)
        last = bisect_right(starts, edit.end) - 1
    if group:
        yield group


def _hunks(blocks: list[_Block]) -> Iterator[list[_Block]]:
    """Blocks whose context meets, together."""
    hunk: list[_Block] = []
    for block in blocks:
        if hunk and block.first - hunk[-1].last > 2 * _CONTEXT:
            yield hunk
            hunk = []
        hunk.append(block)
    yield hunk


def _hunk(lines: list[str], blocks: list[_Block], shift: int) -> str:
    """One `@@` part. shift: how many lines the parts before it have added."""
    first = max(blocks[0].first - _CONTEXT, 0)
    last = min(blocks[-1].last + _CONTEXT, len(lines))
    rows = []
    at = first
    for block in blocks:
        rows += [f" {line}" for line in lines[at : block.first]]
        rows += [f"-{line}" for line in lines[block.first : block.last]]
        rows += [f"+{line}" for line in block.new]
        at = block.last
    rows += [f" {line}" for line in lines[at:last]]
    old = last - first
    new = old + sum(len(block.new) - (block.last - block.first) for block in blocks)
    # git counts an empty range from the line before it.
    head = f"@@ -{first + (old > 0)},{old} +{first + shift + (new > 0)},{new} @@\n"
    return head + "".join(map(_ended, rows))


def _ended(row: str) -> str:
    return row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n"
