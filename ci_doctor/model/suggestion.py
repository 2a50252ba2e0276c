# SPDX-License-Identifier: Apache-2.0
"""Did you mean: the nearest of the names that exist. Pure.

The one rule for commands, options, keys, rules, verdicts and exit codes.
"""

from collections.abc import Iterable

_SHORTEST = 3  # letters: two short words are always near each other


def did_you_mean(word: str, names: Iterable[str]) -> str | None:
    """A hint such as "did you mean `retries`?" for a mistyped `word`.

    Without a name that is near, it lists all of them.
    """
    names = sorted(names)
    near = nearest(word, names)
    if near is not None:
        return f"did you mean `{near}`?"
    if not names:
        return None
    listed = ", ".join(names)
    return f"known names: {listed}"


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that is most like a mistyped `word`, or None if none is near.

    Near is a name that `word` begins, or one that differs in at most a third of its letters. A
    number is like no other one: 42 is not a mistyped 2.
    """
    typed = _bare(word)
    if len(typed) < _SHORTEST or typed.isdigit():
        return None
    best: tuple[int, str] | None = None
    # Sorted: of two names that are equally near, it is always the same one.
    for name in sorted(names):
        known = _bare(name)
        distance = letters_apart(typed, known)
        is_near = distance <= max(len(typed), len(known)) // 3 or known.startswith(typed)
        if is_near and (best is None or distance < best[0]):
            best = (distance, name)
    if best is None:
        return None
    return best[1]


def _bare(word: str) -> str:
    """A word as it is compared: `--Report_Dir` and `report-dir` are the same."""
    return word.lower().replace("_", "-").strip("-")


def letters_apart(one: str, other: str) -> int:
    """How many letters to insert, delete, replace or swap with a neighbour (optimal alignment)."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        line = [row]
        for column, known in enumerate(other, start=1):
            cost = min(
                above[column] + 1,
                line[column - 1] + 1,
                above[column - 1] + (letter != known),
            )
            is_swap = (
                row > 1 and column > 1 and letter == other[column - 2] and known == one[row - 2]
            )
            if is_swap:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        before, above = above, line
    return above[-1]
