# SPDX-License-Identifier: Apache-2.0
"""Acts on files: `starts.jsonl`, the finished starts, from which another process can resume a run.

A start gets its line after its last sample. Nothing is synchronised to the disk: after a power cut
`resume` notices what is missing, and that start is made again.
"""

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.evidence.files import STARTS
from ci_doctor.correctness.evidence.samples import EvidenceFile
from ci_doctor.correctness.results import StartResult, decoded, encoded, relative, without_answers
from ci_doctor.errors import UsageError
from ci_doctor.system.files.writing import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

SCHEMA = "ci-doctor/start/4"


class StartWriter(EvidenceFile):
    """Appends a line for each finished start to `starts.jsonl`, without secrets."""

    def __init__(self, directory: Path, redactor: Redactor, *, append: bool = False) -> None:
        super().__init__(directory / STARTS, append=append)
        self._redactor = redactor

    def write(self, result: StartResult) -> None:
        """Record a start whose samples are written.

        A start that is no evidence (cut short, warm-up) is left out: a resumed run must make it again.
        Raises InfraError if the disk refuses the line.
        """
        if result.counts:
            self.append_line(_line(recordable(result, self._redactor), self.path.parent))


def recordable(result: StartResult, redactor: Redactor) -> StartResult:
    """A start without its answers and without secrets."""
    record: StartResult = redactor.value(without_answers(result))
    return record


def write_starts(directory: Path, records: Sequence[StartResult]) -> None:
    """Replace `starts.jsonl` by these records, atomically. Raises UsageError."""
    # At once: a kill in between must not lose finished starts.
    lines = (_line(record, directory) for record in records)
    write_atomically(directory / STARTS, b"".join(lines))


def read_starts(directory: Path) -> list[StartResult]:
    """The finished starts without their answers, in the order in which they were made.

    A torn line, or one that is no record, is left out. Without a file there are none. Raises
    UsageError if the file cannot be read.
    """
    path = directory / STARTS
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="leave --resume out"
        ) from error
    records = []
    for line in lines:
        # A line without its newline was cut off by a kill, even if it happens to be JSON.
        if not line.endswith(b"\n"):
            continue
        with contextlib.suppress(ValueError, msgspec.ValidationError, RecursionError):
            record = decoded(json.loads(line), _Line)
            if record.schema == SCHEMA:
                records.append(_moved(record.result, lambda path: str(directory / path)))
    return records


class _Line(Struct, frozen=True):
    """A line of `starts.jsonl`. Logs inside the report directory are relative to it."""

    schema: str
    result: StartResult


def _line(record: StartResult, directory: Path) -> bytes:
    """One line of ASCII: a path may hold a lone surrogate."""
    line = _Line(SCHEMA, _moved(record, lambda path: relative(path, directory)))
    return json.dumps(encoded(line)).encode("ascii") + b"\n"


def _moved(result: StartResult, move: Callable[[str], str]) -> StartResult:
    """The start with the paths of its logs changed."""
    failure = result.failure
    if failure is not None and failure.log is not None:
        failure = replace(failure, log=move(failure.log))
    services = tuple(
        replace(each, log=move(each.log)) if each.log else each for each in result.services
    )
    return replace(result, failure=failure, services=services)
