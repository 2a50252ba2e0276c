# SPDX-License-Identifier: Apache-2.0
"""Pure. The comment above a block of code that says how it is run, or why it is not."""

import re
from dataclasses import dataclass

_RUN_BY = re.compile(r"run by (tests/[\w/]+\.py)::(\w+)")
_NOT_RUN = re.compile(r"not run: (\S.*)", re.DOTALL)
_PLACE = re.compile(r"run(?: in ([\w./-]+))?")
_EXIT = re.compile(r"exit (\d+(?:, \d+)*)")
_NEEDS = re.compile(r"needs (\w+)")
_EXCEPT = re.compile(r"except (.+) \((.+)\)")
HINT = (
    "put one of these above the block: <!-- run -->, <!-- run in examples/lint/before; git; venv; needs jq; exit 1; except "
    "WORD, WORD (reason) -->, <!-- run by tests/FILE.py::TEST -->, <!-- not run: reason -->; CONTRIBUTING.md describes them"
)


@dataclass(frozen=True)
class NotRun:
    """The block is not run, for a reason."""

    reason: str


@dataclass(frozen=True)
class RunBy:
    """An existing test runs what the block shows."""

    file: str
    test: str


@dataclass(frozen=True)
class Run:
    """The block's commands are run in a scratch directory.

    `directory` is copied to it first. `exit` is the status of each command, or the statuses of all of them in their order; a
    command's own comment (`# exit 1`) stands above it. Commands that hold one
    of the words of `left_out` are not run. `git` makes a repository of the directory, `venv` puts an environment into it.
    `needs` is a program without which it cannot be run.
    """

    directory: str | None = None
    exit: tuple[int, ...] = (0,)
    left_out: tuple[str, ...] = ()
    git: bool = False
    venv: bool = False
    needs: str | None = None


Marker = NotRun | RunBy | Run


def is_marker(comment: str) -> bool:
    """Whether a comment wants to be a marker, right or wrong."""
    return re.match(r"(not run|run)\b", comment) is not None


def parse_marker(comment: str) -> Marker:
    """The marker that a comment is. Raises ValueError with a hint for a comment that is none."""
    comment = " ".join(comment.split())
    if match := _NOT_RUN.fullmatch(comment):
        return NotRun(match[1])
    if match := _RUN_BY.fullmatch(comment):
        return RunBy(match[1], match[2])
    place, *clauses = comment.split("; ")
    match = _PLACE.fullmatch(place)
    if match is None:
        raise ValueError(f"`{comment}` is no marker: {HINT}")
    return _with_clauses(match[1], clauses)


def _with_clauses(directory: str | None, clauses: list[str]) -> Run:
    status: tuple[int, ...] = (0,)
    left_out: tuple[str, ...] = ()
    needs = None
    for clause in clauses:
        if match := _EXIT.fullmatch(clause):
            status = tuple(int(number) for number in match[1].split(", "))
        elif match := _EXCEPT.fullmatch(clause):
            left_out = tuple(match[1].split(", "))
        elif match := _NEEDS.fullmatch(clause):
            needs = match[1]
        elif clause not in {"git", "venv"}:
            raise ValueError(f"`{clause}` is no clause of a marker: {HINT}")
    return Run(directory, status, left_out, "git" in clauses, "venv" in clauses, needs)
