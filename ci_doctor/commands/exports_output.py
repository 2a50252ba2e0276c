# SPDX-License-Identifier: Apache-2.0
"""Acts on stdout and files: where exports go. Needs the standard library alone."""

import os
import sys
from pathlib import Path

from ci_doctor.errors import UsageError


def write_exports(text: str) -> None:
    """Write `text` to stdout, in the bytes that the environment holds.

    Raises UsageError if stdout is closed.
    """
    if sys.stdout is None:
        raise UsageError(
            "stdout is closed: the exports have nowhere to go", hint="name a file with --output"
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(text))
    sys.stdout.buffer.flush()


def differs(text: str, output: Path) -> bool:
    """Whether `output` holds anything else than `text`."""
    try:
        return output.read_bytes() != os.fsencode(text)
    except OSError:
        return True
