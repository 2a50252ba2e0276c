# SPDX-License-Identifier: Apache-2.0
"""Pure. Turns the figures of many modules and pages into the rows of the comparison."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .prose import Prose
from .source import Function, Source

COMPLEX = 8
UNKNOWN = "–"


class Package(NamedTuple):
    """A package with its modules that hold code; `test_lines` and `prose` are None if unknown."""

    name: str
    sources: tuple[Source, ...]
    test_lines: int | None
    prose: Prose | None

    @property
    def code_lines(self) -> int:
        return sum(source.code_lines for source in self.sources)

    @property
    def filled_lines(self) -> int:
        return sum(source.filled_lines for source in self.sources)

    @property
    def functions(self) -> list[Function]:
        return [function for source in self.sources for function in source.functions]


class Row(NamedTuple):
    """One figure of all packages; `aim` is the value to come near to, or empty."""

    title: str
    aim: str
    cells: tuple[str, ...]


def rows(packages: Sequence[Package]) -> list[Row]:
    """Every figure of the comparison, one cell a package."""
    return [
        Row(title, aim, tuple(measure(package) for package in packages))
        for title, aim, measure in _FIGURES
    ]


def repeated_classes(package: Package) -> list[str]:
    """Names that two or more classes of the package have, sorted."""
    names = Counter(name for source in package.sources for name in source.classes)
    return sorted(name for name, count in names.items() if count > 1)


def as_text(names: Sequence[str], table: Sequence[Row]) -> Iterator[str]:
    """The table for a terminal, in columns."""
    lines = [("", *names, "aim"), *((row.title, *row.cells, row.aim) for row in table)]
    first_width, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
    for title, *cells in lines:
        padded = [title.ljust(first_width)]
        for cell, width in zip(cells, widths, strict=True):
            padded.append(cell.rjust(width))
        yield "  ".join(padded).rstrip()


def as_markdown(names: Sequence[str], table: Sequence[Row]) -> Iterator[str]:
    """The table for RESULTS.md."""
    yield f"| | {' | '.join(names)} | aim |"
    yield f"|---|{'--:|' * (len(names) + 1)}"
    for row in table:
        yield f"| {row.title} | {' | '.join(row.cells)} | {row.aim} |"


def _size(package: Package) -> str:
    return f"{len(package.sources)} / {package.code_lines / 1000:.1f}k"


def _module_lines(package: Package) -> str:
    return _spread([source.code_lines for source in package.sources])


def _function_lines(package: Package) -> str:
    return _spread([function.lines for function in package.functions])


def _nodes(package: Package) -> str:
    return _ratio(sum(source.nodes for source in package.sources), package.filled_lines)


def _comprehensions(package: Package) -> str:
    count = sum(source.comprehensions for source in package.sources)
    return _ratio(100 * count, package.filled_lines)


def _conditionals(package: Package) -> str:
    count = sum(source.conditionals for source in package.sources)
    return _ratio(100 * count, package.filled_lines)


def _comments(package: Package) -> str:
    return _ratio(100 * sum(source.comments for source in package.sources), package.code_lines)


def _complex_functions(package: Package) -> str:
    count = sum(function.complexity > COMPLEX for function in package.functions)
    return _ratio(100 * count, len(package.functions))


def _repeated_classes(package: Package) -> str:
    return str(len(repeated_classes(package)))


def _suppressions(package: Package) -> str:
    count = sum(source.suppressions for source in package.sources)
    return _ratio(1000 * count, package.code_lines)


def _tests(package: Package) -> str:
    if package.test_lines is None:
        return UNKNOWN
    return _ratio(package.test_lines, package.code_lines, digits=2)


def _pronouns(package: Package) -> str:
    return UNKNOWN if package.prose is None else f"{package.prose.per_100_words:.1f}"


_FIGURES: tuple[tuple[str, str, Callable[[Package], str]], ...] = (
    ("modules / code lines", "", _size),
    ("module median / p90 / max", "max 300", _module_lines),
    ("function median / p90 / max", "max 50", _function_lines),
    ("syntax nodes a line", "6.8", _nodes),
    ("comprehensions per 100 lines", "1.5", _comprehensions),
    ("conditional expressions per 100 lines", "1.4", _conditionals),
    ("comments per 100 code lines", "5", _comments),
    (f"complexity > {COMPLEX}, comprehensions counted, %", "0", _complex_functions),
    ("class names used twice or more", "0", _repeated_classes),
    ("lint suppressions per 1000 code lines", "5", _suppressions),
    ("test lines per code line", "1.3", _tests),
    ("docs: relative pronouns per 100 words", "2", _pronouns),
)


def _spread(values: Sequence[int]) -> str:
    """Median, 90th percentile and maximum."""
    if not values:
        return UNKNOWN
    high = sorted(values)[int(0.9 * len(values))]
    return f"{statistics.median(values):.0f} / {high} / {max(values)}"


def _ratio(part: float, whole: float, *, digits: int = 1) -> str:
    return f"{part / whole:.{digits}f}" if whole else UNKNOWN
