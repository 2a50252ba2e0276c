# SPDX-License-Identifier: Apache-2.0
"""Acts on a database and reads files: evidence files go into the history, each once."""

import errno
import glob
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.artifacts import ArtifactDownload, BuildAgent, DownloadLimits
from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import (
    EvidenceFile,
    Hide,
    JobEvidence,
    PlacedFile,
    UnreadableEvidence,
    completed,
    evidence_of_file,
    is_own,
    is_repeated,
    job_without_secrets,
    surroundings,
    with_possible_times,
    without_secrets,
)
from ci_doctor.history.own_report import OtherXmlError, parsed
from ci_doctor.history.writing import EvidenceWriter
from ci_doctor.model.facts.history import IngestFacts
from ci_doctor.system import clock
from ci_doctor.system.files.access import open_at_once

# --- the evidence at some paths, which are files, folders or patterns ---
# They are data of strangers: links in a folder are not followed, and pipes are not read.

MOST_BYTES: Final = 256 * 1024 * 1024
ENDINGS: Final = (".xml", ".json")


class NamedFile(Struct, frozen=True, kw_only=True):
    """A path to read. is_named: somebody named this very file, and did not mean a folder.

    place: what a reader calls it; None for the path. known: what is known of its job beforehand;
    None for what is known of all files.
    """

    path: Path
    is_named: bool
    place: str | None = None
    known: JobEvidence | None = None

    @property
    def at(self) -> str:
        """Its place."""
        return self.path.as_posix() if self.place is None else self.place


def named_files(paths: Sequence[str]) -> tuple[NamedFile, ...]:
    """Every file at `paths`, once, in the order of their names; of folders those that may be evidence.

    Raises UsageError for a path or a pattern that leads to nothing.
    """
    files: dict[str, NamedFile] = {}
    for text in paths:
        for path in _matching(text):
            for file in _at(path):
                files.setdefault(os.path.realpath(file.path), file)
    return tuple(files[name] for name in sorted(files))


def read_file(file: NamedFile) -> PlacedFile | None:
    """What a file says; None if it is no evidence, and was not named itself. Raises UsageError."""
    try:
        content, modified_ms = _content(file.path)
        evidence = parsed(content)
    except UsageError:
        raise
    except OSError as error:
        is_circle = error.errno == errno.ELOOP
        raise UsageError(
            "it is a link in a circle" if is_circle else error.strerror or str(error)
        ) from error
    except (Exception, MemoryError) as error:  # of strangers, and the other files must come in
        raise UsageError(f"{type(error).__name__}: {error}") from error
    if evidence is not None:
        return PlacedFile(
            place=file.at,
            sha256=hashlib.sha256(content).hexdigest(),
            modified_ms=modified_ms,
            parsed=evidence,
            known=file.known,
        )
    if file.is_named or file.path.suffix == ".xml":
        raise UsageError("it has none of the forms that are read")
    return None


def _matching(text: str) -> list[Path]:
    path = Path(text)
    if path.exists():
        return [path]
    matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if not matches:
        raise UsageError(f"there is no {text}", hint="name files, folders, or a pattern in quotes")
    return [Path(match) for match in matches]


def _at(path: Path) -> Iterator[NamedFile]:
    if not path.is_dir():
        yield NamedFile(path=path, is_named=True)
        return
    # os.walk follows no links.
    unreadable: list[str] = []
    for folder, folders, names in os.walk(
        path, onerror=lambda error: unreadable.append(error.filename)
    ):
        folders.sort()
        for name in sorted(names):
            file = Path(folder, name)
            # A link may lead anywhere on this machine, and the folder is an artifact of strangers.
            if name.endswith(ENDINGS) and not file.is_symlink():
                yield NamedFile(path=file, is_named=False)
    # To read it gives the same error, which is then named as that of any file.
    for name in unreadable:
        yield NamedFile(path=Path(name), is_named=True)


def _content(path: Path) -> tuple[bytes, int]:
    """The bytes of a regular file, and when it was last written. Raises UsageError or OSError."""
    descriptor = open_at_once(path)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError("it is not a regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise UsageError(f"it is larger than {MOST_BYTES // 1024**2} MiB, and was not read")
    return content, status.st_mtime_ns // 1_000_000


# --- downloads what may be evidence of the artifacts of builds ---
# Each artifact names its job, so a file without a word about its job is known by it.

LIMITS: Final = DownloadLimits(file_bytes=MOST_BYTES)


_BUILD_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class NamedBuild(Struct, frozen=True, kw_only=True):
    """A build. id: None for that of this job. What is unknown of the rest is None."""

    label: str
    id: str | None = None
    pipeline: str | None = None
    number: int | None = None
    commit: str | None = None
    branch: str | None = None


def named_build(word: str, environ: Mapping[str, str]) -> NamedBuild:
    """The build that `word` means: `current`, or an id. Raises UsageError for another word."""
    number = environ.get("BUILDKITE_BUILD_NUMBER", "")
    if word in ("current", number, environ.get("BUILDKITE_BUILD_ID")):
        commit = environ.get("BUILDKITE_COMMIT")
        return NamedBuild(
            label=f"build {number}" if number.isdecimal() else "this build",
            pipeline=environ.get("BUILDKITE_PIPELINE_SLUG") or None,
            number=int(number) if number.isdecimal() else None,
            # `HEAD` stands for one that no agent has checked out yet.
            commit=None if commit in ("", "HEAD") else commit,
            branch=environ.get("BUILDKITE_BRANCH") or None,
        )
    if _BUILD_ID.fullmatch(word):
        return NamedBuild(label=word, id=word)
    raise UsageError(
        f"--build {word}: it is no build",
        hint="`current`, or the id of a build: buildkite-agent knows builds by their ids alone",
    )


class FilesToRead(Struct, frozen=True, kw_only=True):
    """Files on this machine, and what could not be downloaded."""

    files: tuple[NamedFile, ...] = ()
    unreadable: tuple[UnreadableEvidence, ...] = ()


def agent_of_job(environ: Mapping[str, str]) -> BuildAgent:
    """The agent of this job. Raises UsageError outside of a Buildkite job."""
    agent = BuildAgent.find(environ)
    if agent is None:
        raise UsageError(
            "--build: this is no Buildkite job with a buildkite-agent",
            hint="download the artifacts, and name their folder",
        )
    return agent


def build_files(
    builds: Sequence[NamedBuild],
    agent: BuildAgent,
    into: Path,
    asked: JobEvidence,
    tell: Callable[[str], None] = lambda _: None,
    *,
    limits: DownloadLimits = LIMITS,
) -> FilesToRead:
    """Download the artifacts of `builds` that may be evidence below `into`; their jobs' retries too.

    asked: what somebody says of their jobs. What could not be downloaded is a part of the result.
    """
    files: list[NamedFile] = []
    unreadable: list[UnreadableEvidence] = []
    for number, build in enumerate(builds):
        tell(f"downloads the artifacts of {build.label}")
        folder = into / f"evidence-{number}"
        download = ArtifactDownload(agent, folder, limits, build=build.id)
        for ending in ENDINGS:
            # Without a search nothing bounds what comes.
            download.fetch(f"*{ending}")
        for path, job in sorted(download.files.items()):
            known = JobEvidence(
                key=job,
                pipeline=build.pipeline,
                build=build.number,
                branch=build.branch,
                commit=build.commit,
            )
            files.append(
                NamedFile(
                    path=path,
                    is_named=False,
                    place=f"{build.label}/{path.relative_to(folder).as_posix()}",
                    known=completed(known, asked),
                )
            )
        unreadable += [UnreadableEvidence(build.label, each) for each in download.problems]
    return FilesToRead(files=tuple(files), unreadable=tuple(unreadable))


# --- evidence files go into the history, each once ---

# Of one transaction: long enough that its own cost does not count, short enough that others wait
# less than a second for it. No more than that is held in memory.
MOST_ATTEMPTS: Final = 20_000
Tell = Callable[[str], None]


def ingest(
    engine: sa.Engine,
    files: FilesToRead,
    known: JobEvidence,
    hide: Hide,
    tell: Tell = lambda _: None,
    *,
    database: str = "",
) -> tuple[IngestFacts, list[UnreadableEvidence]]:
    """Write the evidence in `files`; what was done, and files that could not be read.

    known: what is known of jobs whose files do not say it. hide: takes the secrets out of a text. database: what a
    reader calls it.
    """
    now_ms = round(clock.epoch() * 1000)
    reader = _Reader(files.files, job_without_secrets(known, hide), hide, tell, now_ms=now_ms)
    reader.unreadable += files.unreadable
    writer = EvidenceWriter(engine)
    written = [writer.write(batch, now_ms) for batch in batches(reader.evidence())]
    facts = IngestFacts(
        database=database,
        files=sum(each.files for each in written),
        attempts=sum(each.attempts for each in written),
        known_files=sum(each.known_files for each in written),
        left_out=tuple(reader.left_out),
        unreadable={each.place: each.problem for each in reader.unreadable},
        other_xml=reader.other_xml,
        moved=reader.moved,
        late_jobs=tuple(dict.fromkeys(job for each in written for job in each.late_jobs)),
    )
    return facts, reader.unreadable


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
        self.other_xml: dict[str, str] = {}
        self.moved: dict[str, int] = {}
        self._now_ms = now_ms
        self._files = files
        self._known = known
        self._hide = hide
        self._tell = tell
        self._count = 0

    def evidence(self) -> Iterator[EvidenceFile]:
        own = list(self._read(file for file in self._files if is_own(file.at)))
        around = surroundings([file.at for file in self._files], own)
        self.left_out = [file.at for file in self._files if is_repeated(file.at, around)]
        others = self._read(
            file for file in self._files if not is_own(file.at) and not is_repeated(file.at, around)
        )
        for placed in itertools.chain(own, others):
            try:
                evidence, moved = with_possible_times(
                    evidence_of_file(placed, around, self._known),
                    around,
                    modified_ms=placed.modified_ms,
                    now_ms=self._now_ms,
                )
            except Exception as error:  # noqa: BLE001 - of strangers, and the other files must come in
                problem = f"{type(error).__name__}: {error}"
                self.unreadable.append(UnreadableEvidence(placed.place, problem))
                continue
            if moved:
                self.moved[placed.place] = moved
            yield evidence

    def _read(self, files: Iterable[NamedFile]) -> Iterator[PlacedFile]:
        for file in files:
            read = None
            try:
                read = read_file(file)
            except UsageError as error:
                if isinstance(error, OtherXmlError) and not file.is_named:
                    self.other_xml[file.at] = error.message
                else:
                    self.unreadable.append(UnreadableEvidence(file.at, error.message))
            self._count += 1
            self._tell(f"read {self._count:,} of {len(self._files):,} files")
            if read is not None:
                known = None if read.known is None else job_without_secrets(read.known, self._hide)
                yield replace(read, parsed=without_secrets(read.parsed, self._hide), known=known)


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
