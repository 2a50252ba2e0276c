# SPDX-License-Identifier: Apache-2.0
"""Did you mean: the nearest of the names that exist. Pure."""

from collections.abc import Iterable


def did_you_mean(word: str, names: Iterable[str]) -> str | None:
    """A hint such as "did you mean `retries`?" for a mistyped `word`, or the list of names if none is near."""
    names = sorted(names)
    near = nearest(word, names)
    if near is not None:
        return f"did you mean `{near}`?"
    return f"known names: {', '.join(names)}" if names else None


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that is most like a mistyped `word`, or None if none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, sorted(names), n=1, cutoff=0.6)
    return near[0] if near else None
