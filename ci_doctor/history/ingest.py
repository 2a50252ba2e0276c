# SPDX-License-Identifier: Apache-2.0
"""Acts on a database and reads files: evidence files go into the history, each once."""

from collections.abc import Callable, Iterator, Sequence

import sqlalchemy as sa

from ci_doctor.history.batch_write import EvidenceWriter
from ci_doctor.history.collecting import named_files, read_file
from ci_doctor.history.evidence import EvidenceFile, JobEvidence
from ci_doctor.history.reading.placed_evidence import PlacedFile, evidence_files
from ci_doctor.history.results import Ingested, UnreadableEvidence
from ci_doctor.system import clock

# Of one transaction: long enough that its own cost does not count, short enough that others wait
# less than a second for it.
MOST_ATTEMPTS = 20_000
Tell = Callable[[str], None]


def ingest(
    engine: sa.Engine, paths: Sequence[str], known: JobEvidence, tell: Tell | None = None
) -> Ingested:
    """Write the evidence at `paths`. known: what is known of jobs whose files do not say it.

    Raises UsageError for a path that leads to nothing.
    """
    placed: list[PlacedFile] = []
    unreadable: list[UnreadableEvidence] = []
    files = named_files(paths)
    for count, file in enumerate(files, start=1):
        read = read_file(file)
        if isinstance(read, PlacedFile):
            placed.append(read)
        elif read is not None:
            unreadable.append(read)
        if tell is not None:
            tell(f"read {count:,} of {len(files):,} files")
    evidence, left_out = evidence_files(placed, known)
    total = _write(engine, evidence, tell)
    return Ingested(
        files=total.files,
        attempts=total.attempts,
        known_files=total.known_files,
        left_out=left_out,
        unreadable=tuple(unreadable),
    )


def write_evidence(engine: sa.Engine, evidence: Sequence[EvidenceFile]) -> Ingested:
    """Write evidence that is read already."""
    return _write(engine, evidence, None)


def _write(engine: sa.Engine, evidence: Sequence[EvidenceFile], tell: Tell | None) -> Ingested:
    writer = EvidenceWriter(engine)
    now_ms = round(clock.epoch() * 1000)
    files = attempts = known = 0
    for batch in batches(evidence):
        written = writer.write(batch, now_ms)
        files += written.files
        attempts += written.attempts
        known += written.known_files
        if tell is not None:
            tell(f"wrote {attempts:,} attempts")
    return Ingested(files=files, attempts=attempts, known_files=known)


def batches(evidence: Sequence[EvidenceFile]) -> Iterator[list[EvidenceFile]]:
    """Files in their order, with at most MOST_ATTEMPTS attempts together unless one file has more."""
    batch: list[EvidenceFile] = []
    size = 0
    for file in evidence:
        if batch and size + len(file.attempts) > MOST_ATTEMPTS:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += len(file.attempts)
    if batch:
        yield batch
