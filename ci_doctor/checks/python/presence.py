# SPDX-License-Identifier: Apache-2.0
"""Reads whether a path leads to something, also where another user's directories are in the way.

pathlib raises PermissionError for a path below a directory that may not be searched.
"""

import os
from pathlib import Path


def absence(path: Path | str) -> str | None:
    """Why a path leads to nothing, as a clause; None if it leads to a file or a directory."""
    try:
        os.stat(path)  # noqa: PTH116 - a path may be text
    except (FileNotFoundError, NotADirectoryError):
        return "does not exist"
    except OSError as error:
        return f"cannot be reached ({error.strerror})"
    return None


def is_file(path: Path | str) -> bool:
    """Whether a file is there, and can be reached."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path | str) -> bool:
    """Whether a directory is there, and can be reached."""
    return os.path.isdir(path)  # noqa: PTH112
