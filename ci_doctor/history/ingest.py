# SPDX-License-Identifier: Apache-2.0
"""Acts on a database and reads files: evidence files go into the history, each once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import sqlalchemy as sa
from msgspec.structs import replace

from ci_doctor.history.batch_write import EvidenceWriter
from ci_doctor.history.build_artifacts import BuildFiles
from ci_doctor.history.collecting import NamedFile, named_files, read_file
from ci_doctor.history.evidence import EvidenceFile, JobEvidence
from ci_doctor.history.reading.hidden_secrets import Hide, job_without_secrets, without_secrets
from ci_doctor.history.reading.placed_evidence import (
    FileSurroundings,
    PlacedFile,
    evidence_of_file,
    is_own,
    is_repeated,
    surroundings,
    with_possible_times,
)
from ci_doctor.history.results import Ingested, MovedTimes, UnreadableEvidence
from ci_doctor.system import clock

# Of one transaction: long enough that its own cost does not count, short enough that others wait
# less than a second for it. No more than that is held in memory.
MOST_ATTEMPTS: Final = 20_000
Tell = Callable[[str], None]


def ingest(
    engine: sa.Engine,
    paths: Sequence[str],
    known: JobEvidence,
    hide: Hide,
    tell: Tell = lambda _: None,
    *,
    downloaded: BuildFiles | None = None,
) -> Ingested:
    """Write the evidence at `paths`. known: what is known of jobs whose files do not say it.

    hide: takes the secrets out of a text. downloaded: files of builds, which are read as well.

    Raises UsageError for a path that leads to nothing.
    """
    of_builds = BuildFiles() if downloaded is None else downloaded
    files_to_read = (*named_files(paths), *of_builds.files)
    now_ms = round(clock.epoch() * 1000)
    reader = _Reader(files_to_read, known, hide, tell, now_ms=now_ms)
    writer = EvidenceWriter(engine)
    files = attempts = known_files = 0
    late: list[str] = []
    for batch in batches(reader.evidence()):
        written = writer.write(batch, now_ms)
        files += written.files
        attempts += written.attempts
        known_files += written.known_files
        late += written.late_jobs
    return Ingested(
        files=files,
        attempts=attempts,
        known_files=known_files,
        left_out=tuple(reader.left_out),
        late_jobs=tuple(dict.fromkeys(late)),
        unreadable=(*of_builds.unreadable, *reader.unreadable),
        moved=tuple(reader.moved),
    )


class _Reader:
    """Reads files one after another; those that say what stands around the others first."""

    def __init__(
        self,
        files: Sequence[NamedFile],
        known: JobEvidence,
        hide: Hide,
        tell: Tell,
        *,
        now_ms: int,
    ) -> None:
        self.left_out: list[str] = []
        self.unreadable: list[UnreadableEvidence] = []
        self.moved: list[MovedTimes] = []
        self._now_ms = now_ms
        self._files = files
        self._known = job_without_secrets(known, hide)
        self._hide = hide
        self._tell = tell
        self._count = 0

    def evidence(self) -> Iterator[EvidenceFile]:
        places = [file.at for file in self._files]
        own = list(self._read(file for file in self._files if is_own(file.at)))
        around = surroundings(places, own)
        for placed in own:
            yield from self._evidence(placed, around)
        others = []
        for file in self._files:
            place = file.at
            if is_own(place):
                continue
            if is_repeated(place, around):
                self.left_out.append(place)
            else:
                others.append(file)
        for placed in self._read(others):
            yield from self._evidence(placed, around)

    def _evidence(self, placed: PlacedFile, around: FileSurroundings) -> Iterator[EvidenceFile]:
        try:
            evidence, moved = with_possible_times(
                evidence_of_file(placed, around, self._known),
                around,
                modified_ms=placed.modified_ms,
                now_ms=self._now_ms,
            )
        except Exception as error:  # noqa: BLE001 - of strangers, and the other files must come in
            problem = f"{type(error).__name__}: {error}"
            self.unreadable.append(UnreadableEvidence(place=placed.place, problem=problem))
            return
        if moved:
            self.moved.append(MovedTimes(place=placed.place, attempts=moved))
        yield evidence

    def _read(self, files: Iterable[NamedFile]) -> Iterator[PlacedFile]:
        for file in files:
            read = read_file(file)
            self._count += 1
            self._tell(f"read {self._count:,} of {len(self._files):,} files")
            if isinstance(read, PlacedFile):
                yield self._without_secrets(read)
            elif read is not None:
                self.unreadable.append(read)

    def _without_secrets(self, file: PlacedFile) -> PlacedFile:
        known = None if file.known is None else job_without_secrets(file.known, self._hide)
        return replace(file, parsed=without_secrets(file.parsed, self._hide), known=known)


def batches(evidence: Iterable[EvidenceFile]) -> Iterator[list[EvidenceFile]]:
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
