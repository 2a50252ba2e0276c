# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: asks bash if it can read a program. Bash gets the text by its input, and runs nothing of it."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

_TIMEOUT_S: Final = 5.0
_COMPLAINT: Final = re.compile(r"line (\d+): (?:syntax error: )?(.*)")


class BashAnswer(Struct, frozen=True, kw_only=True):
    """What bash says of a text. `is_known`: bash was there and answered in time. `line` is 1-based."""

    is_known: bool
    line: int | None = None
    complaint: str = ""


@cache
def _bash() -> str | None:
    return shutil.which("bash")


def bash_answer(text: str) -> BashAnswer:
    """Whether bash takes `text` for a program, by `bash -n`, for at most five seconds."""
    bash = _bash()
    if bash is None:
        return BashAnswer(is_known=False)
    # `shopt -s extglob` in the text has no effect if nothing runs.
    options = ["-O", "extglob"] if "extglob" in text else []
    try:
        ran = subprocess.run(
            [bash, "--norc", "--noprofile", *options, "-n"],
            input=text.encode("utf-8", "surrogateescape"),
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
            cwd=Path("/"),
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeEncodeError):
        return BashAnswer(is_known=False)
    return _answer(ran.returncode, ran.stderr.decode("utf-8", "replace"))


def _answer(status: int, said: str) -> BashAnswer:
    """Bash warns of a here-document without an end and still succeeds."""
    if status == 0:
        return BashAnswer(is_known=True)
    complaints = [match for match in map(_COMPLAINT.search, said.splitlines()) if match]
    if status < 0 or not complaints:
        return BashAnswer(is_known=False)
    return BashAnswer(is_known=True, line=int(complaints[0][1]), complaint=complaints[0][2].strip())
