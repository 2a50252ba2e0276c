# SPDX-License-Identifier: Apache-2.0
"""Pure. What a reader calls a step."""

import re
from collections.abc import Sequence
from typing import Final

from ci_doctor.build.job_attempt import JobAttempt
from ci_doctor.render.formatting import short_line
from ci_doctor.render.safe_text import printable

_EMOJI: Final = re.compile(r":[a-z0-9_+-]{1,40}:")  # `:pytest:`
_LONGEST: Final = 100


def plain_name(attempts: Sequence[JobAttempt]) -> str:
    """The label without emoji, else the key, the command, the place of the files.

    One line of at most 100 characters. A parallel job has its number, from 1, behind it.
    """
    name = short_name(_words(attempts))
    index = attempts[0].about.parallel_index
    if index is None:
        return name
    counts = [each.parallel_count for each in attempts if each.parallel_count]
    return f"{name} {index + 1}/{max(counts)}" if counts else f"{name} {index + 1}"


def _words(attempts: Sequence[JobAttempt]) -> str:
    for each in attempts:
        label = _EMOJI.sub("", each.label or "").strip()
        if label:
            return label
    first = attempts[0]
    own = first.about.step or first.command or first.place or f"job {first.facts.job}"
    return own if own.strip() else "step"


def short_name(text: str) -> str:
    """`text` in one harmless line of at most 100 characters; `step` if nothing of it can be seen."""
    # Before it is looked through: it may be a megabyte.
    beginning = printable(text[: _LONGEST * 10])
    return short_line(beginning, _LONGEST) or "step"
