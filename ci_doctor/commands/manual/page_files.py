# SPDX-License-Identifier: Apache-2.0
"""Acts on files: manual pages in a directory."""

from collections.abc import Iterable
from pathlib import Path

from ci_doctor.commands.manual.man_page import MARK
from ci_doctor.errors import UsageError
from ci_doctor.model.action import FileState, WriteFile
from ci_doctor.system.files.atomic import write_atomically


def plan_pages(directory: Path, pages: dict[str, str]) -> tuple[WriteFile, ...]:
    """What writing `pages` (by name) to `directory` would do.

    Raises UsageError for a file of that name that `ci-doctor man` did not write.
    """
    return tuple(_plan(directory / f"{name}.1", text) for name, text in pages.items())


def write_pages(actions: Iterable[WriteFile]) -> None:
    """Write the pages that differ, and make the directory. Raises UsageError if the directory cannot be written to."""
    for action in actions:
        if action.state is not FileState.UNCHANGED:
            write_atomically(action.path, action.content)


def _plan(path: Path, text: str) -> WriteFile:
    content = text.encode()
    present = _content(path)
    state = FileState.REPLACE
    if present is None:
        state = FileState.CREATE
    elif present == content:
        state = FileState.UNCHANGED
    elif not present.startswith(MARK.encode()):
        raise UsageError(
            f"{path} is not a page that `ci-doctor man` wrote",
            hint="move it away, or name another --directory",
        )
    return WriteFile(path=path, content=content, state=state, why="a manual page")


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="name another --directory"
        ) from error
