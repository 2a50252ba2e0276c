# SPDX-License-Identifier: Apache-2.0
"""Pure. Words for people: shortened texts, near names, and how exports are evaluated."""

from collections.abc import Iterable
from typing import Final


def shortened(text: str, most: int) -> str:
    """`text` in at most `most` characters, the last one an ellipsis if it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


_SHORTEST = 3  # letters: two short words are always near each other


def did_you_mean(word: str, names: Iterable[str]) -> str | None:
    """A hint such as "did you mean `retries`?" for a mistyped `word`.

    Without a name that is near, it lists all of them.
    """
    names = sorted(names)
    near = nearest(word, names)
    if near is not None:
        return f"did you mean `{near}`?"
    return f"known names: {', '.join(names)}" if names else None


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that is most like a mistyped `word`, or None if none is near.

    Near is a name that `word` begins, or one that differs in at most a third of its letters. A
    number is like no other one: 42 is not a mistyped 2.
    """
    typed = _bare(word)
    if len(typed) < _SHORTEST or typed.isdigit():
        return None
    near = []
    for name in names:
        known = _bare(name)
        distance = letters_apart(typed, known)
        if distance <= max(len(typed), len(known)) // 3 or known.startswith(typed):
            near.append((distance, name))
    # With the name: of two that are equally near, it is always the same one.
    return min(near)[1] if near else None


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


# Always exported, and last: it says that `setup-env` ran for this job. Without it an empty text
# could be the exports of a run with nothing to export.
PREPARED = "CI_DOCTOR_PREPARED"

# How a shell evaluates the exports so that nothing goes on without all of them: neither if Python
# dies before our code runs, nor if what is called `ci-doctor` prints something else, or a part, and
# ends with 0. It holds without `set -e` too; benchmarks/eval_forms.py compares it with others in
# real shells. PREPARED is looked for in the text: an earlier step may have set the variable.
EVALUATION: Final = (
    f"exports=$(ci-doctor setup-env) && case $exports in *{PREPARED}=*) "
    'eval "$exports" ;; *) false ;; esac || exit'
)
# In lines of its own: fish joins a list that it evaluates by spaces.
FISH_EVALUATION: Final = (
    "set exports (ci-doctor setup-env --format fish); "
    f"and string match -q '*{PREPARED}*' -- \"$exports\"; "
    "and string join -- \\n $exports | source; or exit"
)
