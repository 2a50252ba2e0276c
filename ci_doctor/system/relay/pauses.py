# SPDX-License-Identifier: Apache-2.0
"""Pure. After which pieces of output a pause is worth it: more may come, and is read in one piece."""

from typing import Final

# A piece below this size: the command writes little by little.
_SMALL_BYTES: Final = 256
# So much after a pause: the command writes fast, and a pause holds it up. A terminal takes 4 KiB.
_MUCH_BYTES: Final = 3 * 1024
_PIECES_WITHOUT_PAUSE: Final = 1000  # from then on


class OutputPauses:
    """Decides piece by piece, in the order in which they were read."""

    def __init__(self) -> None:
        self._has_paused = False
        self._pieces_without = 0

    def comes_after(self, count: int) -> bool:
        """Whether a pause is to follow a piece of `count` bytes."""
        if self._has_paused and count >= _MUCH_BYTES:
            self._pieces_without = _PIECES_WITHOUT_PAUSE
        self._has_paused = count < _SMALL_BYTES and not self._pieces_without
        if self._pieces_without:
            self._pieces_without -= 1
        return self._has_paused
