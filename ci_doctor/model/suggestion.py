# SPDX-License-Identifier: Apache-2.0
"""Did you mean: the nearest of the names that exist."""

from collections.abc import Iterable


def did_you_mean(word: str, names: Iterable[str]) -> str | None:
    """A hint such as "did you mean `retries`?" for a mistyped `word`, or the list of names where none is near."""
    from difflib import get_close_matches

    known = sorted(names)
    near = get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    return f"known names: {', '.join(known)}" if known else None
