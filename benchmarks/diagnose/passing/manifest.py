# SPDX-License-Identifier: Apache-2.0
"""Pure. The rows that say which run each log is of, and how tempting its words are."""

import re

import msgspec

from .frames import Frame

# Words that a failure prints too: a reader of logs is tempted to name such a line the cause.
_TEMPTING = re.compile(
    r"\b(?:\w*error\w*|\w*exception|traceback|fail(?:s|ed|ures?|ing)?|fatal|panic\w*|refused"
    r"|denied|aborted|killed|segmentation fault|timed out|out of memory|undefined reference"
    r"|not found|no such file)\b",
    re.IGNORECASE,
)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A log: its run, its size, and how many of its lines hold a word of failure.

    `frame` names the CI system in whose form the lines stand; `ours` says that a program or a test
    of this repository wrote them. `tolerates` says that the job lets a command fail, and goes on.
    Logs of one `place` resemble each other: a split for calibration keeps them together.
    """

    name: str
    rel: str
    place: str
    tool: str
    command: tuple[str, ...]
    exit_code: int
    n_lines: int
    n_tempting: int
    hard: bool
    frame: Frame
    ours: bool
    tolerates: bool


def tempting_lines(text: str) -> int:
    """The number of lines with a word such as Traceback, error or failed."""
    return sum(1 for line in text.splitlines() if _TEMPTING.search(line))


def as_json_lines(rows: list[Row]) -> str:
    """One row a line, ordered by name."""
    ordered = sorted(rows, key=lambda row: row.name)
    return "".join(f"{msgspec.json.encode(row).decode()}\n" for row in ordered)
