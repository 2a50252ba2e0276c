# SPDX-License-Identifier: Apache-2.0
"""Pure. Names, numbers and costs of a build in words."""

from typing import Final

from ci_doctor.model.facts.build import CauseFacts
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import amount, duration, listed

__all__ = ("amount", "clipped", "listed", "spent")

LONGEST_LINE: Final = 2_000  # of a log: enough to recognise it
LONGEST_FIELD: Final = 500  # a name, or a title


def spent(facts: CauseFacts) -> str:
    """`; 12 min 20 s, 24 min 40 s of GPU time`, as far as it is known."""
    parts = []
    if facts.seconds is not None:
        parts.append(duration(facts.seconds))
    if facts.gpu_seconds is not None:
        parts.append(f"{duration(facts.gpu_seconds)} of GPU time")
    return f"; {', '.join(parts)}" if parts else ""


def clipped(text: str, most: int = LONGEST_LINE) -> str:
    """`text`, cut after `most` characters: a line of a log may be a megabyte long."""
    return shortened(text, most)
