# SPDX-License-Identifier: Apache-2.0
"""Pure. The steps of a tutorial, taken from its page: files, changes to them, commands, output.

A page that follows these rules can be run:

- a line that ends with a name in backquotes and a colon (`server.py`:) names the file of the next
  block;
- a `diff` block is a change to such a file;
- an `sh` block is run by a shell; a comment `<!-- not run: … -->` above it says why tests do not;
- a `text` block after an `sh` block is what the commands print. Its lines stand in the output in
  this order, and a line `…` stands for any lines.
"""

import re
from dataclasses import dataclass, replace

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"`([^`\n]+)`:\s*\Z")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: ([^>]*?) -->\s*\Z")
_DURATION = re.compile(r"\b\d+(\.\d+)? (ms|s)\b")
_ANY_LINES = "…"


@dataclass(frozen=True)
class WrittenFile:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(frozen=True)
class ChangedFile:
    """A change that the reader makes, as a unified diff."""

    diff: str


@dataclass(frozen=True)
class Commands:
    """Commands that the reader types, and what they print, if the page shows it.

    `not_run` says why tests leave them out.
    """

    script: str
    output: str | None = None
    not_run: str | None = None

    @property
    def expected_status(self) -> int:
        """The status that the shown output names, else 0."""
        named = re.search(r"^exit code (\d+)$", self.output or "", re.MULTILINE)
        return int(named[1]) if named else 0


Step = WrittenFile | ChangedFile | Commands


def steps_of(page: str) -> list[Step]:
    """The steps in the order of the page. Raises ValueError for a block that is none."""
    steps: list[Step] = []
    end_of_last = 0
    for block in _BLOCK.finditer(page):
        between = page[end_of_last : block.start()]
        not_run = _NOT_RUN.search(between)
        end_of_last = block.end()
        kind, text = block[1], block[2]
        named = _NAME.search(_COMMENT.sub("", between))
        if kind == "diff":
            steps.append(ChangedFile(text))
        elif named:
            steps.append(WrittenFile(named[1], text))
        elif kind == "sh":
            steps.append(Commands(text, not_run=not_run[1] if not_run else None))
        elif kind == "text" and steps and isinstance(steps[-1], Commands):
            steps[-1] = replace(steps[-1], output=text)
        else:
            raise ValueError(f"a block of {kind!r} that is no file, change, command or output")
    return steps


def first_missing_line(expected: str, output: str) -> str | None:
    """The first line of `expected` that `output` lacks at its place; times are not compared."""
    printed = [_without_times(line) for line in output.splitlines()]
    position = 0
    may_skip = True
    for line in expected.splitlines():
        if line == _ANY_LINES:
            may_skip = True
            continue
        wanted = _without_times(line)
        found = printed[position:].index(wanted) if wanted in printed[position:] else None
        if found is None or (found > 0 and not may_skip):
            return line
        position += found + 1
        may_skip = False
    return None


def _without_times(line: str) -> str:
    return _DURATION.sub("TIME", line).rstrip()
