# SPDX-License-Identifier: Apache-2.0
"""Pure. What the syntax tree of a regex shows: texts without a literal, repeats that backtrack.

The tree is that of `re`, whose parser is private: no public library gives one. So only the check of
a rules file and the tests of the house rules rest on it, and no diagnosis does.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

# Stands for text that is not known: no literal holds it.
_GAP = "\0"
# Of the alternatives of a regex; more are taken together as a gap.
_MOST_TEXTS = 4096
# A character class with more characters is a gap.
_MOST_CHARACTERS = 4
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT)


def texts_without_literal(regex: str, literals: Sequence[str]) -> list[str]:
    """Examples of what a match may consist of that holds none of `literals`; `…` is any text.

    Upper and lower case count as the same: which of them a tool writes is known to the rule's
    author. Nothing is reported for a part with more alternatives than can be tried.
    """
    wanted = [literal.lower() for literal in literals]
    texts = [f"{text}\n" for text in _texts(parser.parse(regex))]
    lacking = [text for text in texts if not any(literal in text.lower() for literal in wanted)]
    return [re.sub(f"{_GAP}+", "…", text.rstrip("\n")) for text in lacking]


def _texts(tree: Any) -> list[str]:
    """Every text that the parsed regex matches, its unknown parts replaced."""
    texts = [""]
    for name, argument in tree:
        texts = _joined(texts, _texts_of(name, argument))
    return texts


def _joined(first: Sequence[str], second: Sequence[str]) -> list[str]:
    if len(first) * len(second) > _MOST_TEXTS:
        return _shortened(first, second)
    return ["".join(pair) for pair in product(first, second)]


def _shortened(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Too many to combine: those with the same known text at their border are enough."""
    if len(first) >= len(second):
        return [f"{text}{_GAP}" for text in first]
    return [f"{_GAP}{text}" for text in second]


def _texts_of(name: Any, argument: Any) -> list[str]:
    match name:
        case op.LITERAL:
            texts = [chr(argument)]
        case op.AT:
            texts = [""]
        case op.IN:
            texts = _class_texts(argument)
        case op.SUBPATTERN:
            texts = _texts(argument[-1])
        case op.BRANCH:
            texts = [text for branch in argument[1] for text in _texts(branch)]
        case op.MAX_REPEAT | op.MIN_REPEAT:
            texts = _repeat_texts(*argument)
        case _:
            texts = [_GAP]
    return texts


def _class_texts(members: Any) -> list[str]:
    texts = []
    for name, argument in members:
        if name is op.LITERAL:
            texts.append(chr(argument))
        elif name is op.RANGE and argument[1] - argument[0] < _MOST_CHARACTERS:
            texts += [chr(code) for code in range(argument[0], argument[1] + 1)]
        else:
            return [_GAP]
    if len(texts) > _MOST_CHARACTERS:
        return [_GAP]
    return texts


def _repeat_texts(least: int, most: int, tree: Any) -> list[str]:
    if least == 0 and most == 1:
        return ["", *_texts(tree)]
    # Whether it is there at all is all that can be relied on.
    texts = [f"{text}{_GAP}" for text in _texts(tree)]
    if least == 0:
        texts.append(_GAP)
    return texts


def nested_repeats(regex: str) -> list[str]:
    """The unbounded repeats in unbounded repeats of `regex`, as sentences.

    With them, `re` may take time that is exponential in the length of a line.
    R. Cox, https://swtch.com/~rsc/regexp/regexp1.html, 2007.
    """
    return sorted(set(_nested(parser.parse(regex), inside=False)))


def _nested(tree: Any, *, inside: bool) -> Iterator[str]:
    for name, argument in tree:
        if name in _REPEATS:
            least, most, repeated = argument
            is_unbounded = most is op.MAXREPEAT
            if inside and is_unbounded and not _is_separated(tree):
                yield "an unbounded repeat inside another one"
            yield from _nested(repeated, inside=inside or (is_unbounded and least != most))
        elif name is op.SUBPATTERN:
            yield from _nested(argument[-1], inside=inside)
        elif name is op.BRANCH:
            for branch in argument[1]:
                yield from _nested(branch, inside=inside)


def _is_separated(tree: Any) -> bool:
    """Whether each round of the repeat has a fixed character that tells where it ends."""
    return any(name is op.LITERAL for name, _ in tree)
