# SPDX-License-Identifier: Apache-2.0
"""What was typed, and when. Reads the clock; needs the standard library alone."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from ci_doctor.system import clock


class Invocation(NamedTuple):
    """One run of the command line. `started` is monotonic seconds, `started_at` RFC 3339."""

    argv: tuple[str, ...]
    started: float
    started_at: str

    @classmethod
    def begin(cls, argv: Sequence[str]) -> Self:
        """Now, with this command line."""
        return cls(argv=tuple(argv), started=clock.now(), started_at=clock.timestamp())

    @property
    def own_argv(self) -> tuple[str, ...]:
        """Our part of the command line: what stands before `--`."""
        if "--" not in self.argv:
            return self.argv
        end = self.argv.index("--")
        return self.argv[:end]

    @property
    def command(self) -> str:
        """The first word of the command; empty if none was typed."""
        for word in self.own_argv:
            if not word.startswith("-"):
                return word
        return ""
