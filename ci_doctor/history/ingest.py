# SPDX-License-Identifier: Apache-2.0
"""Acts on a database and reads files: evidence files go into the history, each once."""

import errno
import glob
import hashlib
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
    Ingested,
    JobEvidence,
    MovedTimes,
    UnreadableEvidence,
    job_without_secrets,
    without_secrets,
)
from ci_doctor.history.own_report import OtherXmlError, parsed
from ci_doctor.history.placed_evidence import (
    FileSurroundings,
    PlacedFile,
    completed,
    evidence_of_file,
    is_own,
    is_repeated,
    surroundings,
    with_possible_times,
)
from ci_doctor.history.writing import EvidenceWriter
from ci_doctor.system import clock
from ci_doctor.system.files.opening import open_at_once

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


def read_file(file: NamedFile) -> PlacedFile | UnreadableEvidence | None:
    """What a file says; None if it is no evidence, and was not named itself."""
    place = file.at
    try:
        content, modified_ms = _content(file.path)
        evidence = parsed(content)
    except OtherXmlError as error:
        return UnreadableEvidence(place=place, problem=error.message, is_other=not file.is_named)
    except (UsageError, OSError) as error:
        return UnreadableEvidence(place=place, problem=_problem(error))
    except (Exception, MemoryError) as error:  # noqa: BLE001 - of strangers, and the other files must come in
        return UnreadableEvidence(place=place, problem=f"{type(error).__name__}: {error}")
    if evidence is not None:
        digest = hashlib.sha256(content).hexdigest()
        return PlacedFile(
            place=place,
            sha256=digest,
            modified_ms=modified_ms,
            parsed=evidence,
            known=file.known,
        )
    if file.is_named or file.path.suffix == ".xml":
        return UnreadableEvidence(place=place, problem="it has none of the forms that are read")
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


def _problem(error: Exception) -> str:
    if isinstance(error, UsageError):
        return error.message
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "it is a link in a circle"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


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


class BuildFiles(Struct, frozen=True, kw_only=True):
    """Files of builds on this machine, and what could not be downloaded of them."""

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
) -> BuildFiles:
    """Download the artifacts of `builds` that may be evidence below `into`; their jobs' retries too.

    asked: what somebody says of their jobs. What could not be downloaded is a part of the result.
    """
    files: list[NamedFile] = []
    unreadable: list[UnreadableEvidence] = []
    for number, build in enumerate(builds):
        tell(f"downloads the artifacts of {build.label}")
        folder = into / f"evidence-{number}"
        download = _downloaded(agent, build, folder, limits)
        files += [
            _named(path, path.relative_to(folder), job, build, asked)
            for path, job in sorted(download.files.items())
        ]
        unreadable += [
            UnreadableEvidence(place=build.label, problem=problem) for problem in download.problems
        ]
    return BuildFiles(files=tuple(files), unreadable=tuple(unreadable))


def _downloaded(
    agent: BuildAgent, build: NamedBuild, folder: Path, limits: DownloadLimits
) -> ArtifactDownload:
    download = ArtifactDownload(agent, folder, limits, build=build.id)
    for ending in ENDINGS:
        # Without a search nothing bounds what comes.
        download.fetch(f"*{ending}")
    return download


def _named(path: Path, place: Path, job: str, build: NamedBuild, asked: JobEvidence) -> NamedFile:
    known = JobEvidence(
        key=job,
        pipeline=build.pipeline,
        build=build.number,
        branch=build.branch,
        commit=build.commit,
    )
    return NamedFile(
        path=path,
        is_named=False,
        place=f"{build.label}/{place.as_posix()}",
        known=completed(known, asked),
    )


# --- evidence files go into the history, each once ---

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
                known = None if read.known is None else job_without_secrets(read.known, self._hide)
                yield replace(read, parsed=without_secrets(read.parsed, self._hide), known=known)
            elif read is not None:
                self.unreadable.append(read)


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
