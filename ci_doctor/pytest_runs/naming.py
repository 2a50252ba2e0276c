# SPDX-License-Identifier: Apache-2.0
"""Node ids of pytest in the forms that reports and shells need. Pure."""

import os
import shlex
from pathlib import Path

from ci_doctor.model.junit_identity import dotted, junit_identity


def group_and_name(test: str) -> tuple[str, str]:
    """The class name and the name of a test case, as pytest's own JUnit file has them.

    A file that could not be collected has its own name as class name.
    """
    group, name = junit_identity(test)
    return group or dotted(test), name


def command_of(python: Path, test: str, root: str | None, directory: Path) -> str:
    """A shell command that runs the test alone, in `directory`; node ids are relative to `root`."""
    name = test
    if root is not None and Path(root) != directory:
        prefix = os.path.relpath(root, directory)
        name = os.path.join(prefix, test)  # noqa: PTH118 - the rest is no path
    return shlex.join([str(python), "-m", "pytest", name])
