# SPDX-License-Identifier: Apache-2.0
"""Pure. What the exception of a traceback means for the failure."""

from enum import StrEnum
from typing import Final

# Levels of a logger for what does not end a program.
TOLERATED_LEVELS: Final = frozenset({"TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING"})


class ExceptionStanding(StrEnum):
    """What an exception is to the failure of its program.

    fatal: its program says that it ends by it. cause: it explains itself. consequence: another
    exception of its chain explains it. answered: a server answered one request with it and went
    on. tolerated: its program went on.
    """

    FATAL = "fatal"
    CAUSE = "cause"
    CONSEQUENCE = "consequence"
    ANSWERED = "answered"
    TOLERATED = "tolerated"

    @property
    def explains(self) -> bool:
        """Whether such an exception can be the cause."""
        return self in {
            ExceptionStanding.FATAL,
            ExceptionStanding.CAUSE,
            ExceptionStanding.ANSWERED,
        }
