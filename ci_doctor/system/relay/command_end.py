# SPDX-License-Identifier: Apache-2.0
"""Pure. How a command ended that ran beside us."""

from msgspec import Struct


class CommandEnd(Struct, frozen=True, kw_only=True):
    """The end of a command.

    returncode: its exit code, or the negative signal number. request: the first signal by which
    somebody requested its end. reader_left: nobody read one of our streams any more. problems:
    sentences on output that could not be handed on or kept.
    """

    returncode: int
    request: int | None = None
    reader_left: bool = False
    problems: tuple[str, ...] = ()

    @property
    def signal(self) -> int | None:
        """The signal that ended it; None if it ended by itself."""
        if self.returncode < 0:
            return -self.returncode
        return None

    @property
    def shell_status(self) -> int:
        """The status as a shell has it: 128+n for the signal n."""
        if self.signal is not None:
            return 128 + self.signal
        return self.returncode
