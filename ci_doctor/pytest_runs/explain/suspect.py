# SPDX-License-Identifier: Apache-2.0
"""A test whose flakiness is to be explained, as the suite's run left it. Pure."""

import re

from msgspec import Struct

# pytest shortens `AssertionError: assert …` to its second half.
_ASSERTION = re.compile(r"assert\b")
_CLASS = re.compile(r"(?:\w+\.)*(\w+)(?::|$)")


class Suspect(Struct, frozen=True, kw_only=True):
    """A test that failed, and the circumstances.

    before: the tests that ran before it in the same process, in order. error: the class of the
    exception with which it failed, None if that is unknown. hash_seed and seed: those of the
    suite's run, None if it had none that is known. always_failed: it failed in each attempt so far,
    so that nothing but another order is tried. likely: tests that decide how another suspect ends:
    of those before it, they are tried first.
    """

    test: str
    before: tuple[str, ...] = ()
    error: str | None = None
    hash_seed: int | None = None
    seed: int | None = None
    always_failed: bool = False
    likely: tuple[str, ...] = ()


def error_class(message: str | None) -> str | None:
    """The class of the exception in the message of a failure, without its module; None if unknown."""
    lines = (message or "").strip().splitlines()
    if not lines:
        return None
    if _ASSERTION.match(lines[0]):
        return "AssertionError"
    header = _CLASS.match(lines[0])
    return None if header is None else header.group(1)
