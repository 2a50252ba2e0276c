# SPDX-License-Identifier: Apache-2.0
"""Pure. Starts against requests as a matrix, and first differences as bars."""

import itertools
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeGuard

from msgspec import Struct

from ci_doctor.model.facts.correctness import (
    AnswerMatrix,
    DivergencePositions,
    RequestRow,
    StartColumn,
)
from ci_doctor.render.formatting import UNKNOWN, amount, number

# Classes from 1 on share seven colours in turn; the number in the cell distinguishes them.
COLOURS = 8
MOST_CELLS = 30_000  # about 700 kB of a page
_EQUAL = "equal"
# The order in which kinds are read, the worst first.
_KINDS = {
    "disputed": ("Disputed", "the mix of answers differs most between the arms"),
    "changed": ("Changed", "the baseline is always the same, the candidate never the same as it"),
    "own": (
        "Own",
        "the baseline differs from itself, and the candidate gives an answer of its own",
    ),
    "sometimes": (
        "Sometimes",
        "the baseline is always the same, the candidate only sometimes the same as it",
    ),
    "flaky": (
        "Flaky",
        "the baseline differs from itself, and the candidate adds nothing of its own",
    ),
    "unanswered": ("Unanswered", "there is nothing to compare"),
    _EQUAL: ("Equal", "the same in every start that counts"),
}


class MatrixCell(Struct, frozen=True):
    """`style` is a CSS class, `text` the number of the answer, from 1, or a dash for none."""

    style: str
    text: str


class MatrixRow(Struct, frozen=True):
    """One request; `cells` stand in the order of the columns."""

    id: str
    cells: tuple[MatrixCell, ...]


class MatrixGroup(Struct, frozen=True):
    """The requests of one kind."""

    kind: str
    title: str
    note: str
    rows: tuple[MatrixRow, ...]


class MatrixStrip(Struct, frozen=True):
    """One start over all requests, as SVG paths `(style, d)`.

    In a box one unit wide for each request and ten high.
    """

    name: str
    paths: tuple[tuple[str, str], ...]


class MatrixView(Struct, frozen=True):
    """What the page draws of a matrix.

    `equal` holds the ids of requests that every start answered alike. `left_out` counts the
    differing requests that are not drawn.
    """

    columns: tuple[StartColumn, ...]
    baseline: int
    groups: tuple[MatrixGroup, ...]
    equal: tuple[str, ...]
    strips: tuple[MatrixStrip, ...]
    differing: int
    drawn: int
    left_out: int
    colours: tuple[MatrixCell, ...]

    @property
    def kinds(self) -> str:
        """`3 disputed, 52 flaky, 945 the same in every start`."""
        counts = []
        for group in self.groups:
            title = group.title.lower()
            counts.append(f"{len(group.rows)} {title}")
        if self.equal:
            counts.append(f"{len(self.equal)} the same in every start")
        return ", ".join(counts)

    @property
    def total(self) -> int:
        """How many requests are in the picture."""
        return self.drawn + len(self.equal)

    @property
    def label(self) -> str:
        """The picture in a sentence, for those who do not see it."""
        starts = amount(len(self.columns), "start")
        requests = amount(self.total, "request")
        return f"{starts} against {requests}: {self.kinds}"


def view(matrix: AnswerMatrix, disputed: Collection[str] = ()) -> MatrixView | None:
    """`matrix` as it is drawn; None if there is nothing to draw.

    Baseline starts stand before candidate starts, disputed and flaky requests before equal ones.
    Requests of one kind are sorted by their answers, so that those that vary together stand
    together. What exceeds 30,000 cells is counted in `left_out`.
    """
    order = _column_order(matrix.starts)
    if not order or not matrix.requests:
        return None
    equal, differing = _divided(matrix.requests, order, frozenset(disputed))
    # A row is shown with all of its cells or not at all.
    most_rows = MOST_CELLS // len(order)
    drawn = differing[:most_rows]
    columns = [matrix.starts[index] for index in order]
    arms = [start.arm for start in columns]
    return MatrixView(
        columns=tuple(columns),
        # Whatever is no candidate is compared as the baseline.
        baseline=len(arms) - arms.count("candidate"),
        groups=tuple(_groups(drawn)),
        equal=tuple(equal),
        strips=tuple(_strips(columns, drawn, len(equal))),
        differing=len(differing),
        drawn=len(drawn),
        left_out=len(differing) - len(drawn),
        colours=_legend(matrix.requests),
    )


def _divided(
    requests: Sequence[RequestRow], order: Sequence[int], disputed: Collection[str]
) -> tuple[list[str], list["_MatrixRequest"]]:
    """The ids of the requests that every start answered alike, and the others as they are read."""
    equal: list[str] = []
    differing: list[_MatrixRequest] = []
    for row in requests:
        if _is_equal_everywhere(row, len(order)):
            equal.append(row.id)
        else:
            is_disputed = row.id in disputed
            differing.append(_MatrixRequest(row, order, is_disputed=is_disputed))
    differing.sort(key=attrgetter("rank", "kind", "pattern"))
    return equal, differing


class _MatrixRequest:
    """A request that is drawn in a row of its own, with what it is sorted by."""

    def __init__(self, row: RequestRow, order: Sequence[int], *, is_disputed: bool) -> None:
        self.id = row.id
        self.kind = row.kind
        if is_disputed:
            self.kind = "disputed"
        self.rank = _rank(self.kind)
        self.pattern: list[int] = []
        self.cells: list[MatrixCell] = []
        for index in order:
            answer = _answer(row, index)
            self.cells.append(_cell(answer))
            # Sorted before every answer, as None cannot be compared with a number.
            place = -1 if answer is None else answer
            self.pattern.append(place)


def _rank(kind: str) -> int:
    names = list(_KINDS)
    # A kind unknown to this version may be the one that matters: it is read first.
    if kind not in names:
        return 0
    return names.index(kind)


def _column_order(starts: Sequence[StartColumn]) -> list[int]:
    """Indices: the baseline's before the candidate's, archived ones first."""

    def rank(index: int) -> tuple[bool, bool]:
        # False is sorted before True.
        start = starts[index]
        is_candidate = start.arm == "candidate"
        return is_candidate, not start.archived

    return sorted(range(len(starts)), key=rank)


def _is_equal_everywhere(row: RequestRow, starts: int) -> bool:
    # The kind alone says it for the starts that count only; another may lack an answer.
    if row.kind != _EQUAL or len(row.classes) != starts:
        return False
    return set(row.classes) == {0}


def _answer(row: RequestRow, index: int) -> int | None:
    """A start that has no entry gave no answer."""
    if index >= len(row.classes):
        return None
    return row.classes[index]


def _groups(requests: Iterable[_MatrixRequest]) -> list[MatrixGroup]:
    """The requests by kind, in the order in which they come."""
    by_kind: dict[str, list[MatrixRow]] = {}
    for request in requests:
        row = MatrixRow(request.id, tuple(request.cells))
        by_kind.setdefault(request.kind, []).append(row)
    groups = []
    for kind, rows in by_kind.items():
        # A later version may know more kinds than this one.
        unknown = (kind.capitalize(), "")
        title, note = _KINDS.get(kind, unknown)
        groups.append(MatrixGroup(kind, title, note, tuple(rows)))
    return groups


def _cell(answer: int | None) -> MatrixCell:
    """The cell of an answer: people count from 1, and a dash stands for none."""
    if answer is None or answer < 0:
        return MatrixCell("none", UNKNOWN)
    colour = answer
    if answer >= COLOURS:
        # Never 0 again: that is the colour of the answer given first.
        colour = (answer - 1) % (COLOURS - 1) + 1
    number = answer + 1
    return MatrixCell(f"c{colour}", str(number))


def _legend(requests: Iterable[RequestRow]) -> tuple[MatrixCell, ...]:
    """A cell of each colour that is used, and the one for no answer."""
    answers: set[int | None] = set()
    for row in requests:
        answers.update(row.classes)
    has_gaps = None in answers
    numbers = sorted(filter(_is_number, answers))
    # The answers after these repeat the colours.
    cells = [_cell(number) for number in numbers[:COLOURS]]
    if has_gaps:
        cells.append(_cell(None))
    return tuple(cells)


def _is_number(answer: int | None) -> TypeGuard[int]:
    return answer is not None and answer >= 0


def _strips(
    columns: Sequence[StartColumn], requests: Sequence[_MatrixRequest], equal: int
) -> Iterator[MatrixStrip]:
    """A strip for each start: its answers to all requests on one line."""
    for column, start in enumerate(columns):
        styles = [request.cells[column].style for request in requests]
        yield _strip(start.name, styles, equal)


def _strip(name: str, styles: Sequence[str], equal: int) -> MatrixStrip:
    """Neighbours of one colour become one rectangle: a page of a thousand requests stays small."""
    # The equal requests are not drawn as rows, but they have their place in the strip.
    equal_styles = ["c0"] * equal
    all_styles = [*styles, *equal_styles]
    rectangles: dict[str, list[str]] = {}
    begin = 0
    for style, run in itertools.groupby(all_styles):
        neighbours = list(run)
        width = len(neighbours)
        rectangle = f"M{begin} 0h{width}v10h{-width}z"
        rectangles.setdefault(style, []).append(rectangle)
        begin += width
    paths = []
    # Sorted, so that the same report gives the same bytes.
    for style, parts in sorted(rectangles.items()):
        path = "".join(parts)
        paths.append((style, path))
    return MatrixStrip(name, tuple(paths))


_MOST_BINS = 30  # narrower bars cannot be pointed at on a page of usual width
_STEPS = (1, 2, 5, 10)


class Bar(Struct, frozen=True):
    """One bin: `[first, last]` in whole units, and its rectangle in percent of the picture."""

    first: int
    last: int
    count: int
    x: float
    width: float
    height: float


class Tick(Struct, frozen=True):
    """A number beside an axis, at a place in percent."""

    at: float
    text: str


class Histogram(Struct, frozen=True):
    """What the page draws of a divergence. `median_at` is in percent of the width."""

    unit: str
    count: int
    bars: tuple[Bar, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    least: str
    median: str
    most: str
    median_at: float


def histogram(divergence: DivergencePositions) -> Histogram | None:
    """`divergence` as bars; None if no position is known.

    Least, median and most are taken from the positions, so that the mark of the median cannot
    stand beside its own bars.
    """
    positions = sorted(filter(_is_position, divergence.positions))
    if not positions:
        return None
    first, width = _bins(positions)
    counts = _counts(positions, first, width)
    bins = len(counts)
    # As the report in text has it: a position that some answer has, and not the middle of two.
    middle = statistics.median_low(positions)
    # The bar of a single unit spans [n, n + 1): the mark stands at its middle.
    median_at = _percent(middle - first + 0.5, bins * width)
    return Histogram(
        unit=divergence.unit,
        count=len(positions),
        bars=tuple(_bars(counts, first, width)),
        across=_across(first, width, bins),
        up=_up(max(counts)),
        least=number(positions[0]),
        median=number(middle),
        most=number(positions[-1]),
        # Never beyond the picture: of huge positions the subtraction is rounded.
        median_at=min(100.0, median_at),
    )


def _is_position(position: float | None) -> TypeGuard[float]:
    # NaN fails the comparison, too.
    return position is not None and 0 <= position < math.inf


def _bins(positions: Sequence[float]) -> tuple[int, int]:
    """The first bin's beginning, and the width of all.

    The width is the smallest of 1, 2, 5, 10, 20, … with 30 bins at most.
    """
    least = positions[0]
    most = positions[-1]
    magnitude = 1
    while True:
        for step in _STEPS:
            width = step * magnitude
            first = int(least // width) * width
            bins = (most - first) // width + 1
            if bins <= _MOST_BINS:
                return first, width
        magnitude *= 10


def _counts(positions: Sequence[float], first: int, width: int) -> list[int]:
    last = int((positions[-1] - first) // width)
    counts = [0] * (last + 1)
    for position in positions:
        index = int((position - first) // width)
        # Never beyond the last: of huge positions the subtraction is rounded.
        counts[min(last, index)] += 1
    return counts


def _bars(counts: Sequence[int], first: int, width: int) -> Iterator[Bar]:
    tallest = max(counts)
    bins = len(counts)
    for index, count in enumerate(counts):
        if not count:
            continue
        begin = first + index * width
        end = begin + width - 1
        yield Bar(
            begin,
            end,
            count,
            x=_percent(index, bins),
            width=_percent(1, bins),
            height=_percent(count, tallest),
        )


def _across(first: int, width: int, bins: int) -> tuple[Tick, ...]:
    """At most six numbers, each below the beginning of its bin.

    If a bin is one unit wide, below its middle.
    """
    every = math.ceil(bins / 6)
    shift = 0.0
    if width == 1:
        shift = 0.5
    ticks = []
    for index in range(0, bins, every):
        begin = first + index * width
        at = _percent(index + shift, bins)
        ticks.append(Tick(at, str(begin)))
    return tuple(ticks)


def _up(tallest: int) -> tuple[Tick, ...]:
    """Numbers at the bottom and the top, and at half height if that is a whole number."""
    marks = [0, tallest]
    if tallest >= 4 and tallest % 2 == 0:
        marks.insert(1, tallest // 2)
    ticks = []
    for count in marks:
        # From the top, as CSS measures.
        at = 100 - _percent(count, tallest)
        ticks.append(Tick(at, str(count)))
    return tuple(ticks)


def _percent(part: float, whole: float) -> float:
    # Rounded: the page must not differ by the last bit of a division.
    return round(100 * part / whole, 3)
