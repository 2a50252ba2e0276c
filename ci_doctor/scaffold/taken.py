# SPDX-License-Identifier: Apache-2.0
"""Reads a directory: which of the proposed files are there already, or have no place there."""

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ci_doctor.scaffold.proposing.proposed_file import Proposal


def taken_names(root: Path, proposal: Proposal) -> Mapping[str, str]:
    """The paths that cannot be made below `root`, each with what follows its name in a sentence.

    One exists, also as a link to nothing, or as a file that git ignores and the listing left out. Or a
    folder above it is a file, or a link that leads out of the repository.
    """
    taken = {}
    for each in proposal.files:
        obstacle = _obstacle(root, PurePosixPath(each.path))
        if obstacle is not None:
            taken[each.path] = f"cannot be written: {obstacle}"
        elif os.path.lexists(root / each.path):
            taken[each.path] = "exists and is not changed"
    return taken


def _obstacle(root: Path, path: PurePosixPath) -> str | None:
    """What is in the way of the directory of `path`; None if it is there or can be made."""
    # From the top; the last of the parents is `.`.
    for folder in reversed(path.parents[:-1]):
        at = root / folder
        if not os.path.lexists(at):
            return None
        if not os.path.isdir(at):  # noqa: PTH112 - it raises nothing
            return f"{folder} is no directory"
        if not at.resolve().is_relative_to(root.resolve()):
            return f"{folder} leads out of the repository"
    return None
