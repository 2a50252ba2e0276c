# SPDX-License-Identifier: Apache-2.0
"""Reads where links of a page lead: other files, headings in them, and addresses outside the repository."""

import os.path
import re
from collections import Counter
from functools import cache
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from docs.site.made_pages import PAGES as MADE
from tests.support.documents.page import ROOT, Page, read_page
from tests.support.tracked_files import tracked_files

_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+|127\.0\.0\.1|localhost")


def anchors(page: Page) -> set[str]:
    """What may stand behind `#` in a link to the page, by GitHub's rules."""
    slugs: Counter[str] = Counter()
    found = set(page.ids)
    for heading in page.headings:
        slug = slug_of(heading.text)
        count = slugs[slug]
        found.add(f"{slug}-{count}" if count else slug)
        slugs[slug] += 1
    return found


def slug_of(text: str) -> str:
    """GitHub's name for a heading: lower case, without punctuation, a hyphen for each blank."""
    kept = re.sub(r"[^\w\- ]", "", text.strip().lower())
    return kept.replace(" ", "-")


def is_external(target: str) -> bool:
    """Whether a target names something outside the repository."""
    return re.match(r"[a-z][a-z+.-]*:|//", target) is not None


def mistake_in_link(page: Page, target: str) -> str | None:
    """Why a link of the page leads nowhere; None if it leads somewhere."""
    if is_external(target):
        return _mistake_in_address(target)
    name, _, anchor = unquote(target).partition("#")
    path = Path(os.path.normpath(page.path.parent / name)) if name else page.path
    if not path.is_relative_to(ROOT):
        return f"{target} leads out of the repository"
    file = path.relative_to(ROOT).as_posix()
    # A clone has no made page.
    if name and file in MADE and page.name not in MADE:
        return f"{target} is made for the site alone: name what docs/site/made_pages.py links"
    if name and file not in MADE and file not in _committed():
        return f"{target} is no committed file"
    if anchor and anchor not in _anchors_at(path, page):
        return f"{target}: no such heading is there"
    return None


@cache
def _committed() -> frozenset[str]:
    """The files of the repository, and the directories that hold them."""
    files = map(PurePosixPath, tracked_files())
    return frozenset(str(path) for file in files for path in (file, *file.parents))


def _anchors_at(path: Path, page: Page) -> set[str]:
    if path == page.path:
        return anchors(page)
    if path.suffix != ".md":
        return set()
    return anchors(read_page(path.relative_to(ROOT).as_posix()))


def _mistake_in_address(target: str) -> str | None:
    if target.startswith("mailto:"):
        return (
            None if re.fullmatch(r"mailto:[^@\s]+@[^@\s]+", target) else f"{target} is no address"
        )
    parts = urlsplit(target)
    local = parts.hostname in {"127.0.0.1", "localhost"}
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        return f"{target} is not https"
    if parts.hostname is None or not _HOST.fullmatch(parts.hostname):
        return f"{target} names no host"
    return None
