# SPDX-License-Identifier: Apache-2.0
"""Pure. What came of a write: evidence, and the schema."""

from msgspec import Struct


class UnreadableEvidence(Struct, frozen=True, kw_only=True):
    """A file that may hold evidence, and what is wrong with it. is_other: it is XML of something else."""

    place: str
    problem: str
    is_other: bool = False


class MovedTimes(Struct, frozen=True, kw_only=True):
    """A file with `attempts` whose times cannot be true; they got the nearest that can."""

    place: str
    attempts: int


class Ingested(Struct, frozen=True, kw_only=True):
    """What was done. left_out: places of files that say what another one says.

    late_jobs: keys of jobs whose earlier attempts got a branch, a commit or a step.
    """

    files: int = 0
    attempts: int = 0
    known_files: int = 0
    left_out: tuple[str, ...] = ()
    unreadable: tuple[UnreadableEvidence, ...] = ()
    late_jobs: tuple[str, ...] = ()
    moved: tuple[MovedTimes, ...] = ()


class SchemaChange(Struct, frozen=True, kw_only=True):
    """What was done to the schema. before: None if there was none."""

    before: str | None
    after: str
