# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a statement runs, as far as versions, imports and constants decide it."""

from enum import IntEnum


class Life(IntEnum):
    """The certain ones last: a statement under several conditions has the least of them."""

    DEAD = 0
    TYPING = 1  # under TYPE_CHECKING: never at run time
    GUARDED = 2  # a condition about versions or names that is not decided, or a fallback
    SOMETIMES = 3  # a condition about anything else
    ALWAYS = 4


class Caught(IntEnum):
    """Whether an exception at a place ends in a handler around it."""

    NOT = 0
    BROADLY = 1  # `except Exception`
    BY_NAME = 2
