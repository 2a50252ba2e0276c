# SPDX-License-Identifier: Apache-2.0
"""Pure. Which names of tags are releases: a version that is the tag's own text after a prefix."""

import re
from typing import Final

# `v1.2`, `release-1.2`, `pkg/v1.2rc1`: a prefix of words, then a version by PEP 440.
_RELEASE = re.compile(r"^(?P<prefix>(?:[A-Za-z][\w.]*[-_/])*)(?P<version>[vV]?\d.*)$")
# A prefix that ends in a number: what follows is the rest of a date or of a longer number.
_NUMBER_BEFORE = re.compile(r"(?:^|[-_/.])[vV]?\d+[-_/.]$")
_DATE = re.compile(r"^(?:19|20)\d\d[.]?(?:0?[1-9]|1[0-2])(?:[.]?(?:0?[1-9]|[12]\d|3[01]))?(?![\d])")
# Words that precede the number of a release. Before another word, such as `nightly`, `build` or `cu`,
# a bare number counts something else.
_RELEASE_WORDS: Final = frozenset(
    {"", "release", "releases", "rel", "version", "ver", "tag", "tags"}
)


def is_release(tag: str) -> bool:
    """Whether a tag's name is a version by PEP 440, with or without a prefix before it."""
    from packaging.version import InvalidVersion, Version

    match = _RELEASE.match(tag)
    if match is None:
        return False
    text = match["version"]
    try:
        Version(text)
    except InvalidVersion:
        return False
    # `2026-04` is a post-release by PEP 440 alone.
    if re.fullmatch(r"\d+(-\d+)+", text) and _DATE.match(text.replace("-", ".")):
        return False
    return is_own_text(match["prefix"], text, None)


def is_own_text(prefix: str, text: str, name: str | None) -> bool:
    """Whether the version `text` is a tag's own text after `prefix`, which is a project's.

    `name` is the project's distribution. `nightly-2026-04-22` is read as `nightly-2026-04-` and 22,
    `nightly-13` as `nightly-` and 13: neither is a version of anything. A dotted version may follow
    any words.
    """
    if _is_of_project(prefix, name):
        return True
    if _NUMBER_BEFORE.search(prefix) and text[:1].isdigit():
        return False
    return "." in text


def is_dated(prefix: str, text: str, name: str | None) -> bool:
    """Whether `text` is a date behind a word that names neither a release nor the project."""
    return not _is_of_project(prefix, name) and _DATE.match(text.lstrip("vV")) is not None


def _is_of_project(prefix: str, name: str | None) -> bool:
    words = re.sub(r"[-_./@=]+", "-", prefix.lower()).strip("-")
    words = words.removesuffix("v").strip("-") if words == "v" or words.endswith("-v") else words
    if words in _RELEASE_WORDS:
        return True
    return name is not None and words == re.sub(r"[-_.]+", "-", name.lower())
