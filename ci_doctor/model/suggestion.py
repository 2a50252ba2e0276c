# SPDX-License-Identifier: Apache-2.0
"""Did you mean: the nearest of the names that exist. Pure."""

from collections.abc import Iterable


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
    """The name that is most like a mistyped `word`, or None if none is near."""
    from difflib import get_close_matches

    # Sorted: of two names that are equally near, it is always the same one.
    near = get_close_matches(word, sorted(names), n=1, cutoff=0.6)
    if not near:
        return None
    return near[0]
