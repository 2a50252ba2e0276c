# SPDX-License-Identifier: Apache-2.0
"""Node ids of pytest in the forms that reports and shells need. Pure."""

import os
import shlex
from pathlib import Path


def group_and_name(test: str) -> tuple[str, str]:
    """The class name and the name of a test case, as pytest's own JUnit file has them.

    `tests/test_a.py::TestX::test_y[a::b]` gives `tests.test_a.TestX` and `test_y[a::b]`.
    """
    # A parameter may hold the separator.
    head, bracket, parameters = test.partition("[")
    file, *names = head.split("::")
    group = file.removesuffix(".py").replace("/", ".")
    if not names:
        return group, f"{head}{bracket}{parameters}"
    return ".".join([group, *names[:-1]]), f"{names[-1]}{bracket}{parameters}"


def command_of(python: Path, test: str, root: str | None, directory: Path) -> str:
    """A shell command that runs the test alone, in `directory`; node ids are relative to `root`."""
    name = test
    if root is not None and Path(root) != directory:
        prefix = os.path.relpath(root, directory)
        name = os.path.join(prefix, test)  # noqa: PTH118 - the rest is no path
    return shlex.join([str(python), "-m", "pytest", name])
