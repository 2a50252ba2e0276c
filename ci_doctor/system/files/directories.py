# SPDX-License-Identifier: Apache-2.0
"""Acts on directories: makes them, and files in them, though somebody removes them meanwhile.

`Path.mkdir(exist_ok=True)` raises FileExistsError if the directory was there and vanishes before
the call looks again. Agents that share a directory remove it once it is empty.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Made = TypeVar("Made")

# Each attempt is lost only to a removal at that very moment.
_ATTEMPTS = 1000


def make_directory(directory: Path, mode: int = 0o777) -> None:
    """Make `directory` with its parents, unless it is there; `mode` is its own. Raises OSError."""
    for _ in range(_ATTEMPTS - 1):
        try:
            directory.mkdir(mode, parents=True)
        except FileExistsError:
            if directory.is_dir():
                return
            # A file, or a link to nothing: it will not become a directory.
            if os.path.lexists(directory):
                raise
        except FileNotFoundError:  # a parent vanished
            continue
        else:
            return
    directory.mkdir(mode, parents=True, exist_ok=True)


def in_directory(directory: Path, act: Callable[[], Made]) -> Made:
    """Make `directory`, then `act` in it; again if it vanished before that.

    Returns what `act` returns. `act` is called again after FileNotFoundError alone. Raises OSError.
    """
    for _ in range(_ATTEMPTS - 1):
        make_directory(directory)
        try:
            return act()
        except FileNotFoundError:
            # Not asked whether it is there: somebody else may have made it again since.
            continue
    make_directory(directory)
    return act()
