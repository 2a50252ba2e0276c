# SPDX-License-Identifier: Apache-2.0
"""The matrix of starts against requests: which rows are drawn, in which order, and the strip above them. Pure."""

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from ci_doctor.render.figures import amount
from ci_doctor.render.html.facts import Matrix, RequestRow, StartColumn

COLOURS = (
    8  # classes from 1 on share seven colours in turn; the number in the cell tells them apart
)
MOST_CELLS = 30_000  # about 700 kB of a page
_EQUAL = "equal"
# The order in which kinds are read, the worst first.
_KINDS = {
    "disputed": ("Disputed", "no answer of the candidate is one of the baseline's"),
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


class Cell(Struct, frozen=True):
    """`style` is a CSS class, `text` what stands in the cell: the number of the answer, from 1, or a dash for none."""

    style: str
    text: str


class Row(Struct, frozen=True):
    """One request; `cells` stand in the order of the columns."""

    id: str
    cells: tuple[Cell, ...]


class Group(Struct, frozen=True):
    """The requests of one kind."""

    kind: str
    title: str
    note: str
    rows: tuple[Row, ...]


class Strip(Struct, frozen=True):
    """One start over all requests, as SVG paths `(style, d)` in a box one unit wide for each request and ten high."""

    name: str
    paths: tuple[tuple[str, str], ...]


class View(Struct, frozen=True):
    """What the page draws of a matrix. `equal` holds the ids of requests that every start answered alike."""

    columns: tuple[StartColumn, ...]
    baseline: int
    groups: tuple[Group, ...]
    equal: tuple[str, ...]
    strips: tuple[Strip, ...]
    differing: int
    drawn: int
    left_out: int
    colours: tuple[Cell, ...]

    @property
    def kinds(self) -> str:
        """`3 disputed, 52 flaky, 945 equal`."""
        counts = [(len(group.rows), group.title.lower()) for group in self.groups]
        counts += [(len(self.equal), "the same in every start")] if self.equal else []
        return ", ".join(f"{count} {title}" for count, title in counts)

    @property
    def total(self) -> int:
        """How many requests are in the picture."""
        return self.drawn + len(self.equal)

    @property
    def label(self) -> str:
        """The picture in a sentence, for those who do not see it."""
        return f"{amount(len(self.columns), 'start')} against {amount(self.total, 'request')}: {self.kinds}"


def view(matrix: Matrix, disputed: Collection[str] = ()) -> View | None:
    """`matrix` as it is drawn: baseline starts before candidate starts, disputed and flaky requests before equal ones.

    Requests of one kind are sorted by their answers, so that those that vary together stand together. None where there
    is nothing to draw. What exceeds 30,000 cells is counted in `left_out`.
    """
    order = _columns(matrix.starts)
    if not order or not matrix.requests:
        return None
    marked = frozenset(disputed)
    same = [row for row in matrix.requests if _all_alike(row, len(order))]
    rows = sorted(
        (row for row in matrix.requests if not _all_alike(row, len(order))),
        key=lambda row: (_rank(_kind(row, marked)), _kind(row, marked), _pattern(row, order)),
    )
    drawn = rows[: MOST_CELLS // len(order)]
    return View(
        columns=tuple(matrix.starts[index] for index in order),
        baseline=sum(matrix.starts[index].arm != "candidate" for index in order),
        groups=tuple(_groups(drawn, order, marked)),
        equal=tuple(row.id for row in same),
        strips=tuple(_strip(matrix.starts[index], index, drawn, len(same)) for index in order),
        differing=len(rows),
        drawn=len(drawn),
        left_out=len(rows) - len(drawn),
        colours=_legend(matrix.requests),
    )


def _columns(starts: Sequence[StartColumn]) -> list[int]:
    """Indices: the baseline's before the candidate's, archived ones first, else in the order in which they were made."""
    return sorted(
        range(len(starts)),
        key=lambda index: (starts[index].arm == "candidate", not starts[index].archived),
    )


def _all_alike(row: RequestRow, starts: int) -> bool:
    return row.kind == _EQUAL and len(row.classes) == starts and set(row.classes) == {0}


def _kind(row: RequestRow, disputed: frozenset[str]) -> str:
    return "disputed" if row.id in disputed else row.kind


def _rank(kind: str) -> int:
    names = list(_KINDS)
    # A kind that this version does not know may be the one that matters.
    return names.index(kind) if kind in names else 0


def _pattern(row: RequestRow, order: Sequence[int]) -> list[int]:
    return [-1 if answer is None else answer for answer in (_answer(row, index) for index in order)]


def _answer(row: RequestRow, index: int) -> int | None:
    return row.classes[index] if index < len(row.classes) else None


def _groups(
    rows: Iterable[RequestRow], order: Sequence[int], disputed: frozenset[str]
) -> list[Group]:
    by_kind: dict[str, list[Row]] = {}
    for row in rows:
        cells = tuple(_cell(_answer(row, index)) for index in order)
        by_kind.setdefault(_kind(row, disputed), []).append(Row(row.id, cells))
    return [
        Group(kind, *_KINDS.get(kind, (kind.capitalize(), "")), rows=tuple(found))
        for kind, found in by_kind.items()
    ]


def _cell(answer: int | None) -> Cell:
    if answer is None or answer < 0:
        return Cell("none", "–")
    return Cell(
        f"c{answer if answer < COLOURS else (answer - 1) % (COLOURS - 1) + 1}", str(answer + 1)
    )


def _legend(requests: Sequence[RequestRow]) -> tuple[Cell, ...]:
    found = {answer for row in requests for answer in row.classes}
    numbers = sorted(answer for answer in found if answer is not None and answer >= 0)[:COLOURS]
    return (*map(_cell, numbers), *((_cell(None),) if None in found else ()))


def _strip(start: StartColumn, index: int, rows: Sequence[RequestRow], same: int) -> Strip:
    """Neighbours of one colour become one rectangle: a page of a thousand requests stays small."""
    paths: dict[str, list[str]] = {}
    styles = [_cell(_answer(row, index)).style for row in rows] + ["c0"] * same
    begin = 0
    for end in range(1, len(styles) + 1):
        if end == len(styles) or styles[end] != styles[begin]:
            paths.setdefault(styles[begin], []).append(
                f"M{begin} 0h{end - begin}v10h{begin - end}z"
            )
            begin = end
    return Strip(
        start.name, tuple((style, "".join(found)) for style, found in sorted(paths.items()))
    )
