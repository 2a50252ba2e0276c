# SPDX-License-Identifier: Apache-2.0
"""Pure. Takes the prose out of a reStructuredText page, in a form that `prose.sentences` reads.

Directives, comments, literal blocks, tables, titles and link targets are no prose. The body of an
admonition (`.. note::`) is prose. The rules are those of docutils' reference; a page that bends
them is read less well, not refused.
"""

import re
from collections.abc import Iterator

_ADMONITION = re.compile(
    r"\.\. (note|warning|tip|important|hint|caution|versionadded|versionchanged|deprecated)::"
)
_EXPLICIT = re.compile(r"\.\.(\s|$)")
_UNDERLINE = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}\s*$")
_TABLE = re.compile(r"\s*(\+[-=+]+|\||[=-]{2,} +[=-]{2,})")
_FIELD = re.compile(r"\s*:[\w -]+:")
_ROLE = re.compile(r":[\w:.-]+:`([^`<]*)(?:<[^>]*>)?`")
_LITERAL = re.compile(r"``.+?``", re.DOTALL)
_TARGET = re.compile(r"`([^`<]+?)\s*(?:<[^>]*>)?`__?")
_REFERENCE = re.compile(r"\b(\w+)_(?=[\s.,;:)])")


def prose_of(page: str) -> str:
    """The page's prose, with Markdown's marks for lists and inline code."""
    text = "\n".join(_kept_lines(page.expandtabs().splitlines()))
    text = _LITERAL.sub("`CODE`", text)
    text = _ROLE.sub(r"\1", text)
    text = _TARGET.sub(r"\1", text)
    return _REFERENCE.sub(r"\1", text)


def _kept_lines(lines: list[str]) -> Iterator[str]:
    """Lines of prose, without their indentation."""
    skipped_from: int | None = None  # lines further in than this belong to what is left out
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            yield ""
            continue
        if skipped_from is not None and indent > skipped_from:
            continue
        skipped_from = None
        bare = line.strip()
        if _ADMONITION.match(bare):
            continue
        if _EXPLICIT.match(bare) or _FIELD.match(line):
            skipped_from = indent
            continue
        if _is_title(lines, number) or _TABLE.match(line):
            continue
        if bare.endswith("::"):
            skipped_from = indent
            bare = bare[:-1]
        yield bare


def _is_title(lines: list[str], number: int) -> bool:
    """Whether the line is a title or its underline."""
    if _UNDERLINE.match(lines[number]):
        return True
    below = lines[number + 1] if number + 1 < len(lines) else ""
    return bool(_UNDERLINE.match(below)) and not lines[number].startswith(" ")
