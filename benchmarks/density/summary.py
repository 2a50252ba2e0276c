# SPDX-License-Identifier: Apache-2.0
"""Pure. Turns the figures of many modules into the rows of the comparison."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .source import Source, total

COMPLEX = 8
UNKNOWN = "–"


class Package(NamedTuple):
    """A package with its modules that hold code; `test_lines` is None if unknown."""

    name: str
    sources: tuple[Source, ...]
    test_lines: int | None

    @property
    def whole(self) -> Source:
        return total(self.sources)


class Row(NamedTuple):
    """One figure of all packages; `aim` is the value to come near to, or empty."""

    title: str
    aim: str
    cells: tuple[str, ...]


def rows(packages: Sequence[Package]) -> list[Row]:
    """Every figure of the comparison, one cell a package."""
    table: list[Row] = []
    for title, aim, measure in _FIGURES:
        cells = tuple(measure(package) for package in packages)
        table.append(Row(title, aim, cells))
    return table


def repeated_classes(package: Package) -> list[str]:
    """Names that two or more classes of the package have, sorted."""
    names = Counter(package.whole.classes)
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
    return f"{len(package.sources)} / {package.whole.code_lines / 1000:.1f}k"


def _module_lines(package: Package) -> str:
    return _spread([source.code_lines for source in package.sources])


def _function_lines(package: Package) -> str:
    return _spread([function.lines for function in package.whole.functions])


def _nodes(package: Package) -> str:
    whole = package.whole
    return _ratio(whole.nodes, whole.filled_lines)


def _comprehensions(package: Package) -> str:
    whole = package.whole
    return _ratio(100 * whole.comprehensions, whole.filled_lines)


def _conditionals(package: Package) -> str:
    whole = package.whole
    return _ratio(100 * whole.conditionals, whole.filled_lines)


def _comments(package: Package) -> str:
    whole = package.whole
    return _ratio(100 * whole.comments, whole.code_lines)


def _complex_functions(package: Package) -> str:
    functions = package.whole.functions
    count = sum(function.complexity > COMPLEX for function in functions)
    return _ratio(100 * count, len(functions))


def _repeated_classes(package: Package) -> str:
    return str(len(repeated_classes(package)))


def _suppressions(package: Package) -> str:
    whole = package.whole
    return _ratio(1000 * whole.suppressions, whole.code_lines)


def _tests(package: Package) -> str:
    if package.test_lines is None:
        return UNKNOWN
    return _ratio(package.test_lines, package.whole.code_lines, digits=2)


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
)


def _spread(values: Sequence[int]) -> str:
    """Median, 90th percentile and maximum."""
    if not values:
        return UNKNOWN
    high = sorted(values)[int(0.9 * len(values))]
    return f"{statistics.median(values):.0f} / {high} / {max(values)}"


def _ratio(part: float, whole: float, *, digits: int = 1) -> str:
    if whole == 0:
        return UNKNOWN
    return f"{part / whole:.{digits}f}"
