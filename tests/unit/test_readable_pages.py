"""Pages stay readable: few long sentences, and few joints in the pages for beginners.

The limits come from the docs of pre-commit, tox, nox, coverage.py, structlog, the test engine
client and just, which were counted alike in November 2026. Their shares of sentences
over 25 words go from 4.3 to 10.1 %; a page of ours may have 5 %. They have 0.6 to 0.9 joints in a
sentence; a page for beginners may have 1.2, because ours explain with examples after a colon.
"""

from pathlib import Path

import pytest

from docs.site.made_pages import PAGES, made_page
from tests.support.sentences import LONG, joints, long_cells, sentences, words

ROOT = Path(__file__).parents[2]
LONG_SHARE = 5  # percent
JOINTS = 1.2
# A short page may have one long sentence, whatever its share is.
ONE = 1
FOR_BEGINNERS = [
    "README.md",
    "docs/tutorial.md",
    "docs/glossary.md",
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/how-do-i/*.md")),
]


def pages() -> list[str]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    for pattern in ("docs/**/*.md", "examples/**/README.md", "buildkite_plugins/**/README.md"):
        found += ROOT.glob(pattern)
    return sorted({str(path.relative_to(ROOT)) for path in found} - set(PAGES))


def text_of(name: str) -> str:
    return made_page(name) if name in PAGES else (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", pages())
def test_a_page_has_few_long_sentences(name: str) -> None:
    texts = sentences(text_of(name))
    long = [text for text in texts if words(text) > LONG]
    most = max(ONE, len(texts) * LONG_SHARE // 100)

    assert len(long) <= most, "\n".join(["split some of these:", *long])


@pytest.mark.parametrize("name", FOR_BEGINNERS)
def test_a_page_for_beginners_has_simple_sentences(name: str) -> None:
    texts = sentences(text_of(name))

    assert sum(map(joints, texts)) / len(texts) <= JOINTS


@pytest.mark.parametrize("name", FOR_BEGINNERS)
def test_a_page_for_beginners_has_no_long_cell(name: str) -> None:
    assert long_cells(text_of(name)) == []
