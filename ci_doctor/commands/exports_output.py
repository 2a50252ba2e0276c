# SPDX-License-Identifier: Apache-2.0
"""Acts on stdout and files: where exports go. Needs the standard library alone."""

import os
import sys
from pathlib import Path

from ci_doctor.errors import UsageError


def write_exports(text: str, *, is_evaluated: bool = True) -> None:
    """Write `text` to stdout, in the bytes that the environment holds.

    If it is evaluated, it begins with newlines: what a module of Python's start has printed before
    it, such as a sitecustomize, must not take the first export along. The second one is for a
    backslash at the end.

    Raises UsageError if stdout is closed.
    """
    if sys.stdout is None:
        raise UsageError(
            "stdout is closed: the exports have nowhere to go", hint="name a file with --output"
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(f"\n\n{text}" if is_evaluated and text else text))
    sys.stdout.buffer.flush()


def differs(text: str, output: Path) -> bool:
    """Whether `output` holds anything else than `text`."""
    try:
        return output.read_bytes() != os.fsencode(text)
    except OSError:
        return True
