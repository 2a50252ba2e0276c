# SPDX-License-Identifier: Apache-2.0
"""Pure. Did you mean: the nearest of the names that exist."""

from collections.abc import Iterable


def did_you_mean(word: str, names: Iterable[str]) -> str | None:
    """A hint for a mistyped `word`: "did you mean `retries`?", or all names if none is near.

    None if there are no names.
    """
    # Late: only an error needs it.
    from difflib import get_close_matches

    choices = sorted(names)
    if not choices:
        return None
    near = get_close_matches(word, choices, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    return f"known names: {', '.join(choices)}"
