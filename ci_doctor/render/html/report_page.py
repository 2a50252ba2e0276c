# SPDX-License-Identifier: Apache-2.0
"""Pure. The page of one report, and the page of a history: tests against time, as a heat strip."""

import itertools
import math
import re
import statistics
import unicodedata
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from ci_doctor.model.facts.correctness import (
    AlignedAnswers,
    AnswerMatrix,
    DivergencePositions,
    FactDifference,
    IdentityFacts,
    LevelFacts,
    PermutationTest,
    RequestRow,
    StartColumn,
    TokenNumber,
)
from ci_doctor.model.facts.history import ColumnFacts, StripRow
from ci_doctor.model.facts.launch import LeftBehind, LeftThing, StopResult
from ci_doctor.model.outcome import Report
from ci_doctor.render.formatting import (
    UNKNOWN,
    amount,
    cleaned,
    links,
    number,
    percent,
    probability,
    worst_first,
)
from ci_doctor.render.html.templating import (
    Shown,
    clipped,
    clipped_before,
    page,
    part,
    sheet,
    value,
)

# --- starts against requests as a matrix, and first differences as bars ---

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
_RANKS = {kind: rank for rank, kind in enumerate(_KINDS)}


def view_of(matrix: AnswerMatrix, disputed: Collection[str] = ()) -> Shown | None:
    """`matrix` as it is drawn; None if there is nothing to draw.

    Baseline starts stand before candidate starts, archived ones first; disputed and flaky requests before equal
    ones. Requests of one kind are sorted by their answers, so that those that vary together stand
    together. What exceeds 30,000 cells is counted in `left_out`. `equal` holds the ids of requests that every
    start answered alike.
    """
    starts = matrix.starts
    order = sorted(
        range(len(starts)), key=lambda at: (starts[at].arm == "candidate", not starts[at].archived)
    )
    if not order or not matrix.requests:
        return None
    equal = [row.id for row in matrix.requests if _is_equal_everywhere(row, len(order))]
    differing = [
        _drawn(row, order, "disputed" if row.id in disputed else row.kind)
        for row in matrix.requests
        if not _is_equal_everywhere(row, len(order))
    ]
    differing.sort(key=lambda row: (_RANKS.get(row["kind"], 0), row["kind"], row["pattern"]))
    # A row is shown with all of its cells or not at all.
    drawn = differing[: MOST_CELLS // len(order)]
    columns = [starts[at] for at in order]
    groups = _groups(drawn)
    total = len(drawn) + len(equal)
    kinds = [f"{len(group['rows'])} {group['title'].lower()}" for group in groups]
    if equal:
        kinds.append(f"{len(equal)} the same in every start")
    said = ", ".join(kinds)
    return {
        "columns": columns,
        # Whatever is no candidate is compared as the baseline.
        "baseline": sum(start.arm != "candidate" for start in columns),
        "groups": groups,
        "equal": equal,
        "strips": [_strip(at, start, drawn, len(equal)) for at, start in enumerate(columns)],
        "differing": len(differing),
        "drawn": len(drawn),
        "left_out": len(differing) - len(drawn),
        "colours": _legend(matrix.requests),
        "kinds": said,
        "total": total,
        # The picture in a sentence, for those who do not see it.
        "label": f"{amount(len(columns), 'start')} against {amount(total, 'request')}: {said}",
    }


def _drawn(row: RequestRow, order: Sequence[int], kind: str) -> Shown:
    """A request in a row of its own; a start that has no entry gave no answer."""
    answers = [row.classes[at] if at < len(row.classes) else None for at in order]
    # Sorted before every answer, as None cannot be compared with a number. A kind unknown to this
    # version may be the one that matters: it is read first.
    pattern = [-1 if answer is None else answer for answer in answers]
    return {"id": row.id, "kind": kind, "pattern": pattern, "cells": [*map(_cell, answers)]}


def _is_equal_everywhere(row: RequestRow, starts: int) -> bool:
    # The kind alone says it for the starts that count only; another may lack an answer.
    return row.kind == _EQUAL and len(row.classes) == starts and set(row.classes) == {0}


def _groups(requests: Iterable[Shown]) -> list[Shown]:
    """The requests by kind, in the order in which they come."""
    groups = []
    for kind, rows in itertools.groupby(requests, key=lambda row: row["kind"]):
        # A later version may know more kinds than this one.
        title, note = _KINDS.get(kind, (kind.capitalize(), ""))
        groups.append({"title": title, "note": note, "rows": list(rows)})
    return groups


def _cell(answer: int | None) -> Shown:
    """The cell of an answer: people count from 1, and a dash stands for none."""
    if answer is None or answer < 0:
        return {"style": "none", "text": UNKNOWN}
    # Never 0 again: that is the colour of the answer given first.
    colour = answer if answer < COLOURS else (answer - 1) % (COLOURS - 1) + 1
    return {"style": f"c{colour}", "text": str(answer + 1)}


def _legend(requests: Iterable[RequestRow]) -> list[Shown]:
    """A cell of each colour that is used, and the one for no answer."""
    answers = {answer for row in requests for answer in row.classes}
    numbers = sorted(answer for answer in answers if answer is not None and answer >= 0)
    # The answers after these repeat the colours.
    return [*map(_cell, numbers[:COLOURS]), *([_cell(None)] if None in answers else [])]


def _strip(column: int, start: StartColumn, requests: Sequence[Shown], equal: int) -> Shown:
    """One start over all requests, as SVG paths `(style, d)`, one unit wide for each request and ten high.

    Neighbours of one colour become one rectangle: a page of a thousand requests stays small.
    """
    styles = [request["cells"][column]["style"] for request in requests]
    paths: dict[str, str] = {}
    begin = 0
    # The equal requests are not drawn as rows, but they have their place in the strip.
    for style, run in itertools.groupby([*styles, *["c0"] * equal]):
        width = len(list(run))
        paths[style] = f"{paths.get(style, '')}M{begin} 0h{width}v10h{-width}z"
        begin += width
    # Sorted, so that the same report gives the same bytes.
    return {"name": start.name, "paths": sorted(paths.items())}


_MOST_BINS = 30  # narrower bars cannot be pointed at on a page of usual width
_MOST_LABELS = 6


def histogram(divergence: DivergencePositions) -> Shown | None:
    """`divergence` as bars in percent of the picture; None if no position is known.

    Least, median and most are taken from the positions, so that the mark of the median cannot
    stand beside its own bars.
    """
    known = (each for each in divergence.positions if each is not None)
    positions = sorted(each for each in known if 0 <= each < math.inf)
    if not positions:
        return None
    first, width = _bins(positions)
    bins = int((positions[-1] - first) // width) + 1
    # Never beyond the last: of huge positions the subtraction is rounded.
    places = [min(bins - 1, int((position - first) // width)) for position in positions]
    counts = {place: places.count(place) for place in sorted(set(places))}
    tallest = max(counts.values())
    bars = [
        {
            "first": first + place * width,
            "last": first + (place + 1) * width - 1,
            "count": count,
            "x": _percent(place, bins),
            "width": _percent(1, bins),
            "height": _percent(count, tallest),
        }
        for place, count in counts.items()
    ]
    # Below the beginning of its bin; below the middle if a bin is one unit wide.
    shift = 0.5 if width == 1 else 0.0
    across = [
        {"at": _percent(place + shift, bins), "text": str(first + place * width)}
        for place in range(0, bins, math.ceil(bins / _MOST_LABELS))
    ]
    marks = [0, tallest // 2, tallest] if tallest >= 4 and tallest % 2 == 0 else [0, tallest]
    # As the report in text has it: a position that some answer has, and not the middle of two.
    middle = statistics.median_low(positions)
    return {
        "unit": divergence.unit,
        "count": len(positions),
        "bars": bars,
        "across": across,
        # From the top, as CSS measures.
        "up": [{"at": 100 - _percent(count, tallest), "text": str(count)} for count in marks],
        "least": number(positions[0]),
        "median": number(middle),
        "most": number(positions[-1]),
        # The bar of a single unit spans [n, n + 1): the mark stands at its middle, and never beyond the picture.
        "median_at": min(100.0, _percent(middle - first + 0.5, bins * width)),
    }


def _bins(positions: Sequence[float]) -> tuple[int, int]:
    """The first bin's beginning, and the width of all: the smallest of 1, 2, 5, 10, … with 30 bins at most."""
    for magnitude in itertools.count():
        for step in (1, 2, 5):
            width = step * 10**magnitude
            first = int(positions[0] // width) * width
            if (positions[-1] - first) // width < _MOST_BINS:
                return first, width
    raise AssertionError  # the widths have no end


def _percent(part: float, whole: float) -> float:
    # Rounded: the page must not differ by the last bit of a division.
    return round(100 * part / whole, 3)


# --- two answers side by side, as the page draws them ---


_LOOSE_SPACES = re.compile(r"(?<= ) | (?= )|^ | $", re.MULTILINE)
_WORDS = re.compile(r"\s+|\w+|.", re.DOTALL)
_WORDS_COMPARED = 400  # SequenceMatcher takes quadratic time
_CLASSES = {"\n": "nl", "\t": "tab"}
_NAMES = {"\n": "line feed", "\t": "tab", " ": "space", "\u00a0": "no-break space"}

VisibleRun = tuple[str, str, str]  # text, the CSS class of a mark ("" for plain text), its name
Segment = tuple[str, bool]  # a piece of one side of a comparison; whether it differs from the other


def loose_spaces(text: str) -> set[int]:
    """The positions of spaces that are easily overlooked: at the ends of a line, and in groups."""
    return {match.start() for match in _LOOSE_SPACES.finditer(text)}


def runs(text: str, spaces: Container[int]) -> Iterator[VisibleRun]:
    r"""`text` as plain runs, and marks for characters that are not seen or mislead a reader.

    Of the spaces, those at the positions `spaces` are marked. `\n` and tab keep their effect behind
    their mark. Control, format (zero width, bidirectional), private and unassigned characters, and
    surrogates are shown as code points: none of them reaches the page.
    """
    plain = ""
    for position, character in enumerate(text):
        run = _mark(character, shown=position in spaces)
        if run is None:
            plain += character
            continue
        if plain:
            yield plain, "", ""
            plain = ""
        yield run
    if plain:
        yield plain, "", ""


def _mark(character: str, *, shown: bool) -> VisibleRun | None:
    if character == " " and shown:
        return character, "sp", "space"
    if character.isprintable():
        return None
    if character in _CLASSES:
        return character, _CLASSES[character], _NAMES[character]
    # Unicode has no names for controls.
    name = _NAMES.get(character) or unicodedata.name(character, "").lower()
    return _code_point(character), "cp", name or "control character"


def segment_runs(side: Sequence[Segment]) -> Iterator[tuple[bool, list[VisibleRun]]]:
    """Each segment of one side, and whether it differs: then all of its spaces are marked."""
    # Of the whole side: a space at the end of a segment is not at the end of a line.
    loose = loose_spaces("".join(text for text, _ in side))
    begin = 0
    for text, differs in side:
        # Positions in the side become positions in the segment.
        spaces = range(len(text)) if differs else {position - begin for position in loose}
        yield differs, list(runs(text, spaces))
        begin += len(text)


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def differing(left: str, right: str) -> tuple[list[Segment], list[Segment]]:
    """Both sides in segments, word by word: what only one of them has `differs`.

    Only the first 400 words of each side are compared, which is more than a page shows; the rest
    counts as differing.
    """
    sides = (_words(left), _words(right))
    segments: tuple[list[Segment], list[Segment]] = ([], [])
    # Without autojunk, which would take the frequent words of a long text for noise.
    for operation, *places in SequenceMatcher(None, *sides, autojunk=False).get_opcodes():
        for words, side, (start, end) in zip(
            sides, segments, (places[:2], places[2:]), strict=True
        ):
            # An insertion has nothing on the left, a deletion nothing on the right.
            if start < end:
                side.append(("".join(words[start:end]), operation != "equal"))
    return segments


def _words(text: str) -> list[str]:
    words = [match.group() for match in _WORDS.finditer(text)]
    # The rest stays as one word, so that no text is lost.
    rest = "".join(words[_WORDS_COMPARED:])
    return [*words[:_WORDS_COMPARED], *([rest] if rest else [])]


def look_alike(left: str, right: str) -> bool:
    """True for two texts that differ and that a reader would take for the same."""
    # NFKC folds what looks alike by design: full-width forms, ligatures, composed letters.
    forms = {unicodedata.normalize("NFKC", text) for text in (left, right)}
    return left != right and len(forms) == 1


# What the hardness of a difference means, in the order in which the kinds are listed.
MEANINGS = {
    "near-tie": "the two likeliest tokens were almost equally likely: rounding can swap them",
    "hard": "the likeliest token was clearly ahead: rounding alone rarely explains it",
    "numbers": "the texts are the same; only log-probabilities differ",
    "length": "one answer ends before the other, or for another reason",
    "missing": "one side gave no answer",
    "unknown": "there are no log-probabilities to decide by",
}
_BEFORE = 320
_SIDE = 900
_TOKEN = 60
_POSITIONS = 12
_CHOICES = 5
_CODE_POINTS = 12


def pair(about: AlignedAnswers) -> Shown:
    """Two answers to one request as they are drawn, from the first difference on.

    Without the names of the starts the sides have their own. `code_points` are those of the first words that
    differ, if they look the same.
    """
    names = (*about.starts, "left", "right")
    texts = (about.left, about.right)
    segments = differing(about.left[:_SIDE], about.right[:_SIDE])
    before = clipped_before(about.before, _BEFORE)
    left, right = (next((text for text, differs in side if differs), "") for side in segments)
    return {
        "about": about,
        "before": list(runs(before, loose_spaces(before))),
        "sides": [
            {
                "start": name,
                "segments": list(segment_runs(side)),
                "left_out": len(text) - len(text[:_SIDE]),
            }
            for name, text, side in zip(names, texts, segments, strict=False)
        ],
        "code_points": (_listed(left), _listed(right)) if look_alike(left, right) else None,
        "logprobs": [
            {
                "at": each.at,
                "left": _choices(each.left),
                "right": _choices(each.right),
                "ulp": each.ulp,
            }
            for each in about.logprobs[:_POSITIONS]
        ],
        "meaning": MEANINGS.get(about.hardness, "") if about.apart is None else about.apart.words,
    }


def _choices(choices: Sequence[TokenNumber]) -> list[Shown]:
    """The likely tokens at a position, and their log-probabilities."""
    shown = []
    for token, chance in choices[:_CHOICES]:
        text = clipped(token, _TOKEN)
        # Every space of a token is marked: " the" and "the" are two tokens.
        shown.append({"token": list(runs(text, range(len(text)))), "value": chance})
    return shown


def _listed(text: str) -> str:
    return " ".join(map(_code_point, text[:_CODE_POINTS]))


_EXACT = "byte for byte"
# By the level of the gate.
_SAME = {"words": "in words", "tokens": "in words and tokens"}
_MOST_PAIRS = 10
_MOST_OF_A_COMMIT = 60
_MOST_LEFT = 1000
Counts = dict[str, int]
Facts = Mapping[str, Any]
Texts = tuple[str, ...]


def drawn(facts: Facts) -> Shown:
    """The parts of the page that come from facts; empty or None if the page leaves one out.

    `same` says in what two answers are the same, `is_exact` that this is all of them.
    """
    # Each part by itself: one of an unknown form must not take the page away.
    test = part(facts, "test", PermutationTest)
    picture = part(facts, "matrix", AnswerMatrix)
    view = None if picture is None else view_of(picture, test.disputed if test else ())
    identity = part(facts, "identity", IdentityFacts)
    divergence = part(facts, "divergence", DivergencePositions)
    aligned = part(facts, "aligned", tuple[AlignedAnswers, ...]) or ()
    same = _same(facts)
    tested = "test" in facts and view is not None
    risk = part(facts, "risk", str)
    settle = part(facts, "settle", str)
    return {
        "figures": list(_figures(facts, view, test)),
        "commits": list(_commits(facts, identity)),
        "decision": bool(tested or risk or settle),
        "test": test,
        "tested": tested,
        "risk": risk,
        "settle": settle,
        "matrix": view,
        "same": same,
        "is_exact": same == _EXACT,
        "within": sorted((part(facts, "within", Counts) or {}).items()),
        "clusters": part(facts, "clusters", tuple[Texts, ...]) or (),
        "histogram": None if divergence is None else histogram(divergence),
        "shares": list(_shares(part(facts, "differences_by", Counts) or {})),
        "pairs": [pair(each) for each in aligned[:_MOST_PAIRS]],
        "identity": identity,
        "differences": [_difference(each) for each in identity.differences] if identity else [],
        "suspects": part(facts, "suspects", Texts) or (),
        "left": _left(facts)[:_MOST_LEFT],
    }


def _left(facts: Facts) -> tuple[LeftThing, ...]:
    """What services left, each thing: of all starts, or of the one stop of a command."""
    stopped = part(facts, "stopped", StopResult)
    left = stopped.left_behind if stopped else part(facts, "left_behind", LeftBehind)
    return left.things if left else ()


def _same(facts: Facts) -> str:
    """In what answers are the same for the gate."""
    for level in part(facts, "levels", tuple[LevelFacts, ...]) or ():
        if level.gate and level.limit:
            return f"in words and tokens, and within {level.limit} in numbers"
        if level.gate:
            return _SAME.get(level.level, _EXACT)
    return _EXACT


def _figures(
    facts: Facts, view: Shown | None, test: PermutationTest | None
) -> Iterator[tuple[str, str]]:
    """The few figures that stand large above everything else."""
    if view is None:
        return
    requests = part(facts, "requests", int) or view["total"] + view["left_out"]
    yield "requests", f"{requests:,}"
    yield "differing", f"{view['differing']:,}"
    if test:
        yield "disputed", f"{len(test.disputed):,}"
    yield "baseline starts", str(view["baseline"])
    yield "candidate starts", str(len(view["columns"]) - view["baseline"])
    if test:
        yield "p", probability(test.p)


def _commits(facts: Facts, identity: IdentityFacts | None) -> Iterator[tuple[str, str]]:
    """Every fact whose name says that it is a commit; those of the report before the identity's."""
    named: dict[str, Any] = {**(identity.facts if identity else {}), **facts}
    for name in sorted(named):
        fact = named[name]
        if "commit" in name.lower() and isinstance(fact, str):
            yield name.replace("_", " "), fact[:_MOST_OF_A_COMMIT]


def _shares(reasons: Counts) -> Iterator[Shown]:
    """The reasons that were counted, each with its share of all in percent."""
    # Only what was counted: without any difference the total would be a divisor of 0.
    total = sum(count for count in reasons.values() if count > 0)
    # Known reasons in our order, then unknown ones by name.
    for name in dict.fromkeys((*MEANINGS, *sorted(reasons))):
        count = reasons.get(name, 0)
        if count > 0:
            share = round(100 * count / total, 2)
            meaning = MEANINGS.get(name, "")
            yield {"name": name, "count": count, "percent": share, "meaning": meaning}


def _difference(difference: FactDifference) -> Shown:
    """A fact by its values: the starts that agree stand together."""
    starts: dict[str, list[str]] = {}
    for start in sorted(difference.values):
        # By the text on the page: two values with the same text are one to its reader.
        starts.setdefault(value(difference.values[start]), []).append(start)
    return {"fact": difference.fact, "starts": list(starts.items())}


def render(report: Report) -> str:
    """`report` as a page of HTML, ending with a newline."""
    # Without the facts, which are most of a large report and reach the page by `drawn` alone.
    shown = cleaned(replace(report, facts={}))
    values = {
        "subject": shown.command,
        "findings": worst_first(shown),
        "links": links(shown.about),
        # From the facts as they are: their control characters are to be shown, not removed.
        "drawn": drawn(report.facts),
    }
    style = sheet("style.css.j2")
    script = sheet("script.js.j2")
    return page("page.html.j2", shown, style=style, script=script, values=values)


# --- the page of a history: tests against time, as a heat strip ---


# The kind of each character of StripRow.cells; `.` is drawn as nothing.
_CELL_KINDS = {
    "0": "pass",
    **dict.fromkeys("123", "some"),
    **dict.fromkeys("456", "half"),
    **dict.fromkeys("789", "most"),
    "i": "infra",
}
STRIP_FACT = "history_strip"


def render_history(report: Report) -> str | None:
    """`report` as the page of its history; None if its facts are those of no history."""
    facts = report.facts
    rows = part(facts, STRIP_FACT, tuple[StripRow, ...])
    begins = part(facts, "begins", tuple[str, ...])
    width_s = part(facts, "column_s", float)
    if not rows or not begins or width_s is None:
        return None
    infra = part(facts, "infra", tuple[int, ...]) or ()
    marks = "".join("i" if at in infra else "." for at in range(len(begins)))
    shown = cleaned(replace(report, facts={}))
    values = {
        "subject": "History of tests",
        "findings": worst_first(shown),
        "rows": [_row(order, row) for order, row in enumerate(rows)],
        "begins": [begin[:16].replace("T", " ") for begin in begins],
        # A mark above each column of infrastructure.
        "infra": dict(_paths(marks)).get("infra", ""),
        "width_s": width_s,
        "branch": part(facts, "branch", str),
        "tests": part(facts, "tests", int) or 0,
        "attempts": part(facts, "attempts", int) or 0,
        "columns": part(facts, "columns", tuple[ColumnFacts, ...]) or (),
    }
    style = sheet("style.css.j2") + sheet("history.css.j2")
    return page("history.html.j2", shown, style=style, script=sheet("history.js.j2"), values=values)


def _row(order: int, row: StripRow) -> Shown:
    """A test: paths by kind of cell, and what its columns say as text. order: as it is given."""
    rate = row.failure_rate
    return {
        "order": order,
        "label": f"{row.suite}::{row.name}" if row.suite else row.name,
        "suite": row.suite,
        "name": row.name,
        "failed": f"{row.failed:,} of {row.passed + row.failed:,}",
        "rate": percent(rate.rate),
        "interval": f"{percent(rate.low)} to {percent(rate.high)}",
        "low": rate.low,
        "mixed": row.mixed_commits,
        "cells": row.cells,
        "paths": _paths(row.cells),
    }


def _paths(cells: str) -> list[tuple[str, str]]:
    """A path for each kind in `cells`; neighbours of a kind are one rectangle."""
    parts: dict[str, str] = {}
    at = 0
    for kind, run in groupby(_CELL_KINDS.get(cell, "") for cell in cells):
        width = len(list(run))
        if kind:
            parts[kind] = f"{parts.get(kind, '')}M{at} 0h{width}v1h-{width}z"
        at += width
    return sorted(parts.items())
