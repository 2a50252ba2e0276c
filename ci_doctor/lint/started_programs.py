# SPDX-License-Identifier: Apache-2.0
"""Pure. The Python programs that a script or a pipeline starts, with their arguments."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

_STARTED = re.compile(
    r"\bpython(?:3(?:\.\d+)?)?[ \t]+(?:-[uBIE]+[ \t]+)*(?P<file>[\w./-]+\.py)\b"
    r"(?P<rest>(?:[^\n\\;&|]|\\\r?\n|\\.)*)"
)
_COMMENT = re.compile(r"[ \t]*#")


class StartedProgram(Struct, frozen=True, kw_only=True):
    """`file` as the command names it; `arguments` is the text after it, `offset` where that begins."""

    file: PurePosixPath
    arguments: str
    offset: int

    def may_be(self, name: str) -> bool:
        """Whether a file of the repository may be it: the directory of the command is not known."""
        words = [part for part in self.file.parts if part not in {".", "..", "/"}]
        return list(PurePosixPath(name).parts[-len(words) :]) == words


def started_programs(text: str) -> Iterator[StartedProgram]:
    """Commands such as `python3 benchmarks/serve.py --port 8000`, not those in comments."""
    line_start = 0
    for match in _STARTED.finditer(text):
        # From the line before: a line of a megabyte is searched once.
        line_end = text.rfind("\n", line_start, match.start())
        line_start = line_end + 1 if line_end >= 0 else line_start
        if _COMMENT.match(text, line_start):
            continue
        yield StartedProgram(
            file=PurePosixPath(match["file"]),
            arguments=match["rest"],
            offset=match.start("rest"),
        )
