# SPDX-License-Identifier: Apache-2.0
"""Reads the jobs whose logs are kept, from the tables in `tables/*.toml`.

A place is a directory that is set up once; its jobs run there one after another.
"""

import tomllib
from pathlib import Path

import msgspec

from .frames import Frame

TABLES = Path(__file__).parent / "tables"


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run of a real tool: shell commands, each of which is a step of the job.

    `ours` says that a program of this repository wrote the log. `pty` gives the steps a terminal.
    """

    name: str
    tool: str
    steps: tuple[str, ...]
    frame: Frame = Frame.PLAIN
    pty: bool = False
    ours: bool = False
    timeout_s: int = 90

    @property
    def tolerates(self) -> bool:
        """Whether a command may fail without ending its step."""
        return any("||" in step for step in self.steps)


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What its jobs share: the programs that they need, and a script that prepares the directory."""

    name: str
    jobs: tuple[Job, ...]
    needs: tuple[str, ...] = ()
    setup: str = ""


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    place: tuple[Place, ...]


def read_places(directory: Path = TABLES) -> tuple[Place, ...]:
    """All places, in the order of the files' names; ValueError where a name is used twice."""
    places: list[Place] = []
    for path in sorted(directory.glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        places.extend(msgspec.convert(data, _Table).place)
    _refuse_twins([place.name for place in places])
    _refuse_twins([job.name for place in places for job in place.jobs])
    return tuple(places)


def _refuse_twins(names: list[str]) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise ValueError(f"used more than once: {', '.join(twins)}")
