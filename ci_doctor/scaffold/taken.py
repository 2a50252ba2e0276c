# SPDX-License-Identifier: Apache-2.0
"""Reads a directory: which of the proposed files are there already."""

import os
from pathlib import Path

from ci_doctor.scaffold.proposing.proposed_file import Proposal


def taken_names(root: Path, proposal: Proposal) -> frozenset[str]:
    """The paths that exist, also as a link to nothing, or that git ignores and the listing left out."""
    return frozenset(each.path for each in proposal.files if os.path.lexists(root / each.path))
