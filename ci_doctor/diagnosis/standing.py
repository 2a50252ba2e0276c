# SPDX-License-Identifier: Apache-2.0
"""Pure. What the exception of a traceback means for the failure."""

from enum import StrEnum


class Standing(StrEnum):
    """What an exception is to the failure of its program.

    fatal: its program says that it ends by it. cause: it explains itself. consequence: another
    exception of its chain explains it. tolerated: its program went on.
    """

    FATAL = "fatal"
    CAUSE = "cause"
    CONSEQUENCE = "consequence"
    TOLERATED = "tolerated"

    @property
    def explains(self) -> bool:
        """Whether such an exception can be the cause."""
        return self in {Standing.FATAL, Standing.CAUSE}
