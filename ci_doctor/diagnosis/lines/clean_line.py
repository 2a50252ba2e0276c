# SPDX-License-Identifier: Apache-2.0
"""Pure. Removes from a line what its writers and their transport put around its words."""

import re
from typing import Final

from msgspec import Struct

from ci_doctor.diagnosis.lines.ci_stamps import without_stamps
from ci_doctor.diagnosis.lines.writer_prefix import without_prefixes
from ci_doctor.system.secrets.private_keys import first_words

# A sentence longer than this is data; a regex need not read it.
LONGEST_TEXT: Final = 2000
# CSI and OSC sequences (ECMA-48), the Buildkite agent's `\x1b_bk;t=…\x07` (an APC), lone controls;
# `nl`, which archives of Travis' macOS logs hold where a line began with a carriage return.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]_P^X][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|^nl(?=\W|$)|\x1b[()][0-9A-Z]|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1f\x7f]"
)


class CleanLine(Struct, frozen=True, kw_only=True):
    """One line without escapes.

    text: without the stamp of the CI system. message: without the writer's and the logger's prefix
    too. writer: that process's prefix, None if the line has none. level: the logger's. time: as it
    stands in the line. place: where in the program the logger was called.
    """

    text: str
    message: str
    writer: str | None = None
    level: str | None = None
    time: str | None = None
    place: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """What a rule's regex is tried on."""
        if self.text == self.message:
            return (self.text,)
        return (self.message, self.text)


def clean_line(raw: bytes) -> CleanLine:
    """The words of the line `raw`, whose newline is gone; at most 2,000 characters of them."""
    # A progress bar overwrites its own line: what was on screen last is what counts.
    shown = raw.rstrip(b"\r").rpartition(b"\r")[2]
    plain = _ESCAPES.sub("", shown[: 4 * LONGEST_TEXT].decode(errors="replace"))
    plain, time = without_stamps(plain)
    text = first_words(plain, LONGEST_TEXT).rstrip()
    prefixed = without_prefixes(text)
    return CleanLine(
        text=text,
        message=prefixed.message,
        writer=prefixed.writer,
        level=prefixed.level,
        time=time or prefixed.time,
        place=prefixed.place,
    )
