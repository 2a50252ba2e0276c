# SPDX-License-Identifier: Apache-2.0
"""How hard the docs are to read: the length of sentences, their joints, pronouns and passives.

    python benchmarks/prose.py                      prints the figures of this repository
    python benchmarks/prose.py path/to/tox …        prints those of other projects beside them
    python benchmarks/prose.py --pages              also prints each page, the hardest first
    python benchmarks/prose.py --long PAGE          prints the sentences of PAGE over 25 words
    python benchmarks/prose.py --record             also appends the table to benchmarks/RESULTS.md

Give other projects as directories with their sources. Pages are Markdown and reStructuredText at
the root of a project, in `docs/`, `doc/`, `sections/` (pre-commit.com), `examples/` and
`buildkite_plugins/`, without changelogs and licences. Our pages that are made from tables have a
column of their own. All projects are counted alike. The exit status is 0 whatever the figures;
tests/unit/test_readable_pages.py holds the limits.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from density.prose import sentences
from density.readability import LONG, Readability, long_cells, read_sentences
from density.restructured import prose_of
from density.summary import Row, as_markdown, as_text
from startup import RESULTS

ROOT = Path(__file__).parents[1]
MADE_FROM_TABLES = frozenset(
    (
        "commands.md",
        "diagnose-rules.md",
        "environment.md",
        "exit-codes.md",
        "findings.md",
        "flaky-kinds.md",
        "lint-rules.md",
    )
)
_FOLDERS = ("docs", "doc", "sections", "examples", "buildkite_plugins")
_NO_DOCS = ("changelog", "changes", "license", "licence", "code_of_conduct")
_ENGLISH = re.compile(r"[\x20-\x7e]+")


class Project(NamedTuple):
    """A name for the table's head, and the figures below it."""

    name: str
    prose: Readability


# An aim is what most of the projects that we learn from stay below.
_FIGURES: tuple[tuple[str, str, Callable[[Readability], str]], ...] = (
    ("words, in thousands", "", lambda prose: f"{prose.words / 1000:.1f}"),
    ("words per sentence, median", "12", lambda prose: f"{prose.median_words:.0f}"),
    ("words per sentence, p90", "23", lambda prose: f"{prose.p90_words}"),
    (f"sentences over {LONG} words, %", "5", lambda prose: f"{prose.long_share:.1f}"),
    (
        "commas, colons, brackets, dashes per sentence",
        "0.9",
        lambda prose: f"{prose.joints_per_sentence:.2f}",
    ),
    (
        "relative pronouns per 100 words",
        "1.5",
        lambda prose: f"{prose.pronouns_per_100_words:.1f}",
    ),
    ("sentences with a passive, %", "", lambda prose: f"{prose.passive_share:.0f}"),
)


def pages_of(root: Path) -> list[Path]:
    """The pages of a project, sorted."""
    pages: list[Path] = []
    for suffix in (".md", ".rst"):
        pages += root.glob(f"*{suffix}")
        for folder in _FOLDERS:
            pages += (root / folder).rglob(f"*{suffix}")
    return sorted(page for page in pages if not _is_no_doc(page.relative_to(root)))


def sentences_of(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return sentences(prose_of(text) if page.suffix == ".rst" else text)


def read_pages(pages: Iterable[Path]) -> Readability:
    texts: list[str] = []
    for page in pages:
        texts += sentences_of(page)
    return read_sentences(texts)


def read_project(root: Path) -> Project:
    """Raises SystemExit if the directory holds no page."""
    prose = read_pages(pages_of(root))
    if not prose.sentences:
        raise SystemExit(f"{root}: no page of Markdown or reStructuredText; name a source tree")
    return Project(root.resolve().name, prose)


def our_projects(root: Path) -> list[Project]:
    """Our repository twice: the pages written by hand, and those made from tables."""
    by_hand: list[Path] = []
    made: list[Path] = []
    for page in pages_of(root):
        (made if page.name in MADE_FROM_TABLES else by_hand).append(page)
    return [
        Project("ci-doctor", read_pages(by_hand)),
        Project("made from tables", read_pages(made)),
    ]


def rows(projects: Sequence[Project]) -> list[Row]:
    table: list[Row] = []
    for title, aim, measure in _FIGURES:
        table.append(Row(title, aim, tuple(measure(project.prose) for project in projects)))
    return table


def page_lines() -> list[str]:
    """A line for each page, the one with the most long sentences first."""
    measured: list[tuple[Readability, int, str]] = []
    for page in pages_of(ROOT):
        prose = read_pages([page])
        if prose.sentences:
            cells = len(long_cells(page.read_text(encoding="utf-8")))
            measured.append((prose, cells, str(page.relative_to(ROOT))))
    measured.sort(key=lambda each: (-each[0].long_share, each[2]))
    lines = ["  long  median  p90  joints  pronouns  passive   words  long cells"]
    for prose, cells, name in measured:
        lines.append(
            f"{prose.long_share:5.1f}% {prose.median_words:7.0f} {prose.p90_words:4}"
            f" {prose.joints_per_sentence:7.2f} {prose.pronouns_per_100_words:9.1f}"
            f" {prose.passive_share:7.0f}% {prose.words:7} {cells:11}  {name}"
        )
    return lines


def long_sentences(page: Path) -> list[str]:
    """The sentences of a page over LONG words, the longest first."""
    counted: list[tuple[int, str]] = []
    for text in sentences_of(page):
        words = read_sentences([text]).words
        if words > LONG:
            counted.append((words, text))
    counted.sort(reverse=True)
    return [f"{words:3}  {text}" for words, text in counted]


def record(names: Sequence[str], table: Sequence[Row]) -> None:
    text = "\n".join(as_markdown(names, table))
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(f"\n## {datetime.now(UTC):%Y-%m-%d}: sentences of the docs\n\n{text}\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("projects", nargs="*", type=Path, metavar="DIR", help="another project")
    parser.add_argument("--pages", action="store_true", help="print each page of ours")
    parser.add_argument(
        "--long", type=Path, metavar="PAGE", help="print the long sentences of PAGE"
    )
    parser.add_argument("--record", action="store_true", help="append the result to RESULTS.md")
    parser.add_argument(
        "--root", type=Path, default=ROOT, metavar="DIR", help="another tree of this repository"
    )
    arguments = parser.parse_args()
    if arguments.long is not None:
        print(*long_sentences(arguments.long), sep="\n")
        return 0
    projects = [*our_projects(arguments.root), *(read_project(root) for root in arguments.projects)]
    names = [project.name for project in projects]
    table = rows(projects)
    print(*as_text(names, table), sep="\n")
    if arguments.pages:
        print("", *page_lines(), sep="\n")
    if arguments.record:
        record(names, table)
    return 0


def _is_no_doc(path: Path) -> bool:
    """Whether a page is a changelog, a licence or a translation, or lies in a folder of them."""
    for part in path.parts:
        if part.lower().startswith(_NO_DOCS):
            return True
    return not _ENGLISH.fullmatch(path.name)


if __name__ == "__main__":
    sys.exit(main())
