# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/glossary.md: python docs/images/draw_words.py (with .venv's Python).

What a picture claims is computed by the code of the verdict: the order of the starts, which
requests are disputed, and the differences of all labelings.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.verdict.looks import blocks
from ci_doctor.correctness.verdict.mix_test import Labels, labelings, pattern

HERE = Path(__file__).parent
WIDTH = 480  # a telephone shows it without making the letters much smaller
CELL = 32

# Colours have enough contrast on white and on GitHub's dark grey. Every cell also has a letter.
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 12px; }
.in { fill: #ffffff; text-anchor: middle; font-weight: 600; font-size: 12px; }
.x { fill: #0969da; } .y { fill: #9a6700; } .z { fill: #8250df; }
.line { stroke: #8c959f; } .off { fill: #d0d7de; } .on { fill: #cf222e; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .in { fill: #ffffff; }
  .x { fill: #1f6feb; } .off { fill: #484f58; } .on { fill: #f85149; }
}
"""

# Two orders that the blocks allow (a test compares them with the blocks), and the second drawn again.
ORDER = "BAABBABAB"
LABELINGS = ("ABABBABAB", "BAABBABAB", "BABBABABA")

# Answers of the starts A1 to A3 and B1 to B3 to each request.
ANSWERS = {
    "r1": "xxxxxx",
    "r2": "xyxyxx",
    "r3": "xxxzzz",
    "r4": "xyxzzz",
}
BASELINE_STARTS = 3


def svg(height: int, title: str, description: str, parts: Sequence[str]) -> str:
    """A picture with its text alternatives, for a light and a dark page."""
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    named = 'role="img" aria-labelledby="title desc"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {named}>',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(description)}</desc>',
        f"<style>{STYLE}</style>",
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Words at a place; `kind` is a class of STYLE."""
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{name}>{escape(words)}</text>'


def cell(x: float, y: float, words: str, kind: str) -> str:
    """A filled square with a word in it."""
    size = CELL - 4
    square = f'<rect x="{x:g}" y="{y:g}" width="{size}" height="{size}" rx="4" class="{kind}"/>'
    return square + text(x + size / 2, y + 19, words, "in")


def arms_and_starts() -> str:
    """Two rows of starts in the order in which they are made, up to the first look."""
    left, top = 90, 34
    parts = [
        text(0, top + 20, "A  baseline"),
        text(0, top + CELL + 24, "B  candidate"),
    ]
    made = {"A": 0, "B": 0}
    for place, arm in enumerate(ORDER):
        made[arm] += 1
        y = top if arm == "A" else top + CELL + 4
        kind = "x" if arm == "A" else "y"
        parts.append(cell(left + place * (CELL + 2), y, f"{arm}{made[arm]}", kind))
    end = left + len(ORDER) * (CELL + 2) - 6
    below = top + 2 * CELL + 18
    parts += [
        f'<path d="M{left} {below}H{end}" class="line"/>',
        text(left, below + 18, "time →", "small"),
        text(end - 150, below + 18, "9 starts: the first look", "small"),
        text(left, 18, "one box is one start: a new process answers every request", "small"),
    ]
    return svg(
        below + 28,
        "Two arms and their starts",
        "Nine starts in time order: B1 A1 A2 B2 B3 A3 B4 A4 B5. Row A is the baseline, row B "
        "the candidate. Each box is one start, a new process that answers every request. After "
        "nine starts comes the first look.",
        parts,
    )


def in_words(answers: str) -> str:
    """What the answers of one request are, by the rules of the verdict."""
    classes = pattern(list(answers))
    baseline = set(classes[:BASELINE_STARTS])
    candidate = set(classes[BASELINE_STARTS:])
    if baseline.isdisjoint(candidate):
        return "disputed: nothing in common"
    if len(baseline | candidate) == 1:
        return "equal: one answer everywhere"
    return "varies in both: not disputed"


def disputed() -> str:
    """A table of requests and starts; a letter is an answer."""
    left, top = 36, 34
    starts = ["A1", "A2", "A3", "B1", "B2", "B3"]
    parts = []
    for column, start in enumerate(starts):
        x = left + column * (CELL + 2) + (10 if column >= BASELINE_STARTS else 0)
        parts.append(text(x + 6, top - 10, start))
        for row, answers in enumerate(ANSWERS.values()):
            answer = answers[column]
            parts.append(cell(x, top + row * (CELL + 2), answer, answer))
    right = left + len(starts) * (CELL + 2) + 18
    told = []
    for row, (request, answers) in enumerate(ANSWERS.items()):
        y = top + row * (CELL + 2) + 20
        parts += [text(8, y, request), text(right, y, in_words(answers))]
        told.append(f"{request}: {' '.join(answers)}, {in_words(answers)}")
    return svg(
        top + len(ANSWERS) * (CELL + 2) + 8,
        "Which requests are disputed",
        f"A table of requests and starts A1 to A3 and B1 to B3. {'. '.join(told)}.",
        parts,
    )


def differences() -> list[float]:
    """The difference of every labeling: all of A answers x, all of B answers y, nine starts."""
    plan = blocks(Rules(), archived=False)[:2]
    real: list[bool] = []
    block: list[int] = []
    for number, each in enumerate(plan):
        real += [False] * each.baseline + [True] * each.candidate
        block += [number] * each.size
    given = labelings(Labels(candidate=tuple(real), block=tuple(block)))
    answers = [1.0 if candidate else 0.0 for candidate in real]
    return sorted((phi_squared(row, answers) for row in given.rows.tolist()), reverse=True)


def phi_squared(labels: Sequence[float], answers: Sequence[float]) -> float:
    """The squared correlation of the labels with the answers."""
    count = len(labels)
    share = sum(labels) / count
    mean = sum(answers) / count
    together = sum(a * b for a, b in zip(labels, answers, strict=True)) / count
    return (together - share * mean) ** 2 / (share * (1 - share) * mean * (1 - mean))


def relabeling() -> str:
    """The real labels, two others, and a square for each of all labelings."""
    answers = [1.0 if label == "B" else 0.0 for label in LABELINGS[0]]
    left, top = 64, 30
    parts = [
        text(left, 14, "nine starts, each with its label and its answer", "small"),
        text(left + len(answers) * CELL + 6, 14, "difference", "small"),
    ]
    for row, labels in enumerate(LABELINGS):
        name = "another" if row else "as drawn"
        y = top + row * (CELL + 6)
        parts.append(text(0, y + 20, name))
        for column, label in enumerate(labels):
            answer = "y" if answers[column] else "x"
            parts.append(cell(left + column * CELL, y, f"{label} {answer}", answer))
        found = phi_squared([1.0 if label == "B" else 0.0 for label in labels], answers)
        parts.append(text(left + len(labels) * CELL + 12, y + 20, f"{found:.2f}"))
    every = differences()
    extreme = sum(each >= 1 - 1e-9 for each in every)
    y = top + len(LABELINGS) * (CELL + 6) + 24
    parts.append(text(0, y, f"all {len(every)} labelings that could have been drawn:"))
    for number, each in enumerate(every):
        x, low = (number % 28) * 14, y + 12 + (number // 28) * 14
        kind = "on" if each >= 1 - 1e-9 else "off"
        parts.append(f'<rect x="{x}" y="{low}" width="11" height="11" class="{kind}"/>')
    low = y + 12 + ((len(every) - 1) // 28 + 1) * 14
    told = f"p = {extreme} / {len(every)} = {extreme / len(every):.4f}"
    parts.append(text(0, low + 18, told))
    return svg(
        low + 28,
        "How relabeling gives the p-value",
        f"Nine starts with their labels and answers. With the labels as drawn, the difference is "
        f"1. Of all {len(every)} labelings, {extreme} has a difference as large, so {told}.",
        parts,
    )


PICTURES = {
    "arms-and-starts": arms_and_starts,
    "disputed": disputed,
    "relabeling": relabeling,
}


def main() -> None:
    """Write every picture beside this file."""
    for name, draw in PICTURES.items():
        (HERE / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
