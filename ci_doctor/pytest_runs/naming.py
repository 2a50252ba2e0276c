# SPDX-License-Identifier: Apache-2.0
"""Node ids of pytest in the forms that reports and shells need. Pure."""

import itertools
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ci_doctor.model.outcome import dotted, junit_identity


def group_and_name(test: str) -> tuple[str, str]:
    """The class name and the name of a test case, as pytest's own JUnit file has them.

    A file that could not be collected has its own name as class name.
    """
    group, name = junit_identity(test)
    return group or dotted(test), name


# Options of pytest with a value that decide what a test is and how it is loaded.
_SHAPING: Final = (
    "-c",
    "-o",
    "-p",
    "--config-file",
    "--confcutdir",
    "--import-mode",
    "--override-ini",
    "--rootdir",
)
# With the value in the same word: `-pno:x`, `--rootdir=x`.
_JOINED: Final = tuple(name if len(name) == 2 else f"{name}=" for name in _SHAPING)


def shaping_options(args: Sequence[str]) -> tuple[str, ...]:
    """Those of `args`, the arguments of pytest, without which a test is another one or is not there."""
    kept: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            break
        if word in _SHAPING:
            kept += [word, *itertools.islice(words, 1)]
        elif word.startswith(_JOINED):
            kept.append(word)
    return tuple(kept)


def command_of(
    python: Path, test: str, root: str | None, directory: Path, options: Sequence[str] = ()
) -> str:
    """A shell command that runs the test alone, in `directory`; node ids are relative to `root`."""
    name = test
    if root is not None and Path(root) != directory:
        prefix = os.path.relpath(root, directory)
        name = os.path.join(prefix, test)  # noqa: PTH118 - the rest is no path
    return shlex.join([str(python), "-m", "pytest", *options, name])


def explain_command(python: Path, args: Sequence[str], seed: int | None) -> str:
    """The command that names the culprit of an order, from the directory of the run.

    seed: of pytest-randomly; without it the tests would come in another order.
    """
    words = ["ci-doctor", "pytest", "--explain-flaky", "--python", str(python), "--", *args]
    if seed is not None and not any(word.startswith("--randomly-seed") for word in args):
        words.append(f"--randomly-seed={seed}")
    return shlex.join(words)
