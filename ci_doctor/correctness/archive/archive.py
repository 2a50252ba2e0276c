# SPDX-License-Identifier: Apache-2.0
"""Acts on a store: baseline starts of earlier builds, kept by identity, age and build (docs/archive.md).

The store is a directory, or an object store by its address. Many agents may read, write and evict at
once, also over NFS. Every object appears whole; none is ever changed; a reader goes on without one
that disappears. No lock is taken, and files of others are never touched.
"""

import contextlib
import gzip
import json
import os
import re
import secrets
import sys
import weakref
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.correctness.evidence.resume import recordable
from ci_doctor.correctness.evidence.run_identity import read_run
from ci_doctor.correctness.evidence.samples import SamplePosition, is_valid, read_line
from ci_doctor.correctness.results import StartResult, decoded, encoded, outcome, with_answers
from ci_doctor.correctness.settings import AnswerLevel, Arm, ExperimentPlan
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.load.looks import AnswerLooks
from ci_doctor.model.facts.correctness import SharedUse
from ci_doctor.model.facts.launch import StopResult
from ci_doctor.store.directory_store import DirectoryStore, directory_of, is_remote, open_store
from ci_doctor.store.objects import TEMPORARY, ObjectStore, StoredObject, StoreError
from ci_doctor.store.signer import Signer
from ci_doctor.store.trust import (
    MOST_ARMORED_BYTES,
    AllowedSigners,
    Distrust,
    UntrustedError,
    verify,
)
from ci_doctor.system import clock
from ci_doctor.system.files.access import make_directory, own_directory
from ci_doctor.system.secrets.redaction import Redactor

# --- which build made the starts of a run, so that independent builds can be counted ---

# BUILDKITE_COMMIT may also be `HEAD`, or a branch, of a build that was started by hand.
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def build_of(environ: Mapping[str, str]) -> str:
    """The build in words: `build 42 of main at 0123456789ab, https://…`.

    Outside Buildkite it is `a local run`.
    """
    job = JobEnvironment.from_environ(environ)
    if job is None:
        return "a local run"
    text = f"build {job.build_number}" if job.build_number is not None else "a build"
    if job.branch:
        text += f" of {job.branch}"
    if job.commit:
        text += f" at {job.commit[:12]}"
    if job.build_url:
        text += f", {job.build_url}"
    return text


def origin_of_run(plan: ExperimentPlan, commit: str | None) -> tuple[str | None, str | None]:
    """What identifies the build that makes the starts of `plan`, and its commit; None is unknown.

    That is common to the starts of one build and to no others: Buildkite's id of the build, or host
    and time elsewhere. Jobs of one build, their retries and resumed runs are one build. `commit` is the one that is
    checked out; the job's own goes before it, if it has all its digits.
    """
    job = JobEnvironment.from_environ(plan.environment)
    if job is not None:
        is_whole = job.commit is not None and _COMMIT.fullmatch(job.commit) is not None
        return job.build_id or job.job_id, job.commit if is_whole else commit
    try:
        return f"{os.uname().nodename} {read_run(plan.directory).started_at}", commit
    except UsageError:
        # A start of an unknown build is better than a run that ends with an error after its verdict.
        return None, commit


# --- the file of one archived start ---
# It is gzip of one line with all that a comparison needs, and of the samples as they were written, which
# are read only to show an answer. By gzip's own checksum a file is known that was cut short or changed.

# The outcomes of everything follow from the digests.
_KEPT = (AnswerLevel.WORDS, AnswerLevel.TOKENS)
FORMAT = "ci-doctor archived start, 4"
# 1,000 requests in two passes take half a megabyte.
_LINE_LIMIT = 256 << 20
_CHUNK = 1 << 20
# The fastest: a higher level saves a few per cent of samples, which are mostly unique text.
_LEVEL = 1
_DIGEST = re.compile("[0-9a-f]{64}")


class NotAnArchiveError(ValueError):
    """A file is no archived start, or no longer whole. The text is the reason."""


class ArchivedStart(Struct, frozen=True, kw_only=True):
    """A baseline start of an earlier build: the first line of its file.

    `result` answered every request in so many `passes`. `places` leads from a digest to offset and
    length of its sample behind this line, and `bytes` counts what stands there. `build` names the
    build in words, `build_id` identifies it if it is known.
    """

    format: str = FORMAT
    identity: Identity
    recorded_at: str
    build: str
    build_id: str | None = None
    commit: str | None = None
    passes: int
    result: StartResult
    places: dict[str, tuple[int, int]] = {}
    bytes: int = 0

    def numbered(self, number: int) -> "ArchivedStart":
        """The same as the start of an experiment, named `a1`."""
        start = replace(self.result.start, number=number, archived=True, build=self.build_id)
        return replace(self, result=replace(self.result, start=start))


class ArchivedFile(Struct, frozen=True):
    """An archived start, with the place of each of its answers in the unpacked file at `path`."""

    start: ArchivedStart
    path: Path
    places: dict[str, SamplePosition]


def unfit(result: StartResult) -> str | None:
    """Why a start is no baseline for others; None if it is one. Pure."""
    start = result.start
    requests = len(start.answers)
    if start.arm is not Arm.BASELINE or start.archived:
        return f"{start.name} is no baseline start of this run"
    if start.failed or start.outside or not result.counts or result.failure is not None:
        return f"{start.name} did not come to its end"
    # Of no requests at all a start answers all, and proves nothing.
    is_incomplete = start.answered < max(1, requests)
    if start.proof_missing or result.errors or is_incomplete:
        return f"{start.name} did not answer everything"
    if start.empty == requests:
        return f"{start.name} gave empty answers only"
    return None


def for_others(record: StartResult, result: StartResult) -> StartResult:
    """What the builds to come need of a `result`: its `record` without secrets, and its answers.

    What it left on this machine, and what it read of other starts, says nothing of another run.
    """
    whole = with_answers(record, result)
    levels = {level: whole.start.levels[level] for level in _KEPT if level in whole.start.levels}
    start = replace(whole.start, answers={}, levels=levels, looks=AnswerLooks(), control=None)
    return replace(
        whole,
        start=start,
        services=(),
        stopped=StopResult(duration_s=0.0),
        proof=(),
        shared=SharedUse(),
    )


def archived_bytes(start: ArchivedStart, lines: Iterable[bytes]) -> bytes:
    """The content of the file of an archived start.

    `lines` are those of a samples file; lines of other starts are ignored. Raises ValueError if a
    sample of this start is missing.
    """
    result = start.result
    missing = {
        (request, number) for request, digests in result.digests.items() for number in digests
    }
    places: dict[str, tuple[int, int]] = {}
    offset = 0
    samples: list[bytes] = []
    for line in lines:
        sample = read_line(line)
        key = (sample.id, sample.pass_)
        is_own = sample.arm == Arm.BASELINE and sample.start == result.start.number
        if key not in missing or not is_own:
            continue
        # The digest in the line may be right and the answer behind it damaged.
        if sample.digest == result.digests[sample.id][sample.pass_] and is_valid(sample):
            missing.discard(key)
            places.setdefault(str(sample.digest), (offset, len(line)))
            samples.append(line)
            offset += len(line)
    if missing:
        first, _ = min(missing)
        raise ValueError(
            f"{len(missing)} samples of {result.start.name} are missing, among them {first}"
        )
    complete = replace(start, places=places, bytes=offset)
    head = json.dumps(encoded(complete), separators=(",", ":")).encode("ascii") + b"\n"
    # No time: the same samples give the same bytes.
    return gzip.compress(b"".join([head, *samples]), _LEVEL, mtime=0)


def read_start(path: Path) -> ArchivedFile:
    """The archived start in a file. Raises NotAnArchiveError, and OSError."""
    try:
        with gzip.open(path) as file:
            # One byte more than allowed: enough to notice, whatever a bomb would unpack to.
            line = file.readline(_LINE_LIMIT + 1)
            start = _decoded(line)
            size = 0
            # To the end, where the checksum stands.
            while size <= start.bytes and (chunk := file.read(_CHUNK)):
                size += len(chunk)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise NotAnArchiveError(f"it is no whole gzip file: {error}") from error
    if size != start.bytes:
        raise NotAnArchiveError("its samples are cut short or were changed")
    _check_digests(start)
    # Offsets are of the unpacked file.
    places = {
        digest: SamplePosition(offset=len(line) + offset, length=length)
        for digest, (offset, length) in start.places.items()
    }
    result = _answered(start)
    if reason := unfit(result):
        raise NotAnArchiveError(reason)
    # `of` sorts and cleans: a file may hold anything.
    recorded = start.identity
    identity = Identity.of(recorded.facts, recorded.unknown, recorded.noted)
    return ArchivedFile(replace(start, identity=identity, result=result), path, places)


def _decoded(line: bytes) -> ArchivedStart:
    try:
        start = decoded(json.loads(line), ArchivedStart)
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise NotAnArchiveError(f"its first line is none of ours: {error}") from error
    if start.format != FORMAT:
        raise NotAnArchiveError(f"its format is {start.format!r}, not {FORMAT!r}")
    return start


def _check_digests(start: ArchivedStart) -> None:
    """Every request must have a digest in every pass. Raises NotAnArchiveError."""
    # A range, which costs no memory whatever number the file holds.
    passes = range(1, start.passes + 1)
    answers = start.result.digests.values()
    if not answers or any(
        len(by_pass) != start.passes or any(number not in passes for number in by_pass)
        for by_pass in answers
    ):
        raise NotAnArchiveError("it does not hold an answer to every request in every pass")
    # They become keys and parts of messages: nothing else may come from a file of others.
    digests = {digest for by_pass in answers for digest in by_pass.values()}
    if not all(map(_DIGEST.fullmatch, digests | start.places.keys())):
        raise NotAnArchiveError("what names its answers is no digest")


def _answered(start: ArchivedStart) -> StartResult:
    """The result with the outcomes of its digests, as a start of today has them."""
    result = start.result
    answers = {}
    digests = {}
    for request, passes in result.digests.items():
        # One object for the id, as in the starts of today.
        answers[sys.intern(request)] = outcome(passes, start.passes)
        digests[sys.intern(request)] = passes
    return replace(result, start=replace(result.start, answers=answers), digests=digests)


NEWEST = 20
# Files are read beyond the number of wanted starts, because some are of one build.
_READ_FACTOR = 3
# Of one build: more of its starts would leave less room for those of independent builds.
_MOST_OF_A_BUILD = 5
# Of one start: it is held in memory to be written, and to be read from an object store.
_MOST_BYTES = 1 << 30
# For all requests of one look, or of the starts that one run archives. It bounds no directory.
TIMEOUT_S = 120.0
# What signatures are made for, and where they lie.
NAMESPACE = "ci-doctor-archive"
_SIGNATURE = ".sig"
# What the names of all identities' directories begin with.
_IDENTITIES = "identity-"
_PLACE = re.compile(rf"{_IDENTITIES}[0-9a-f]{{64}}")
_START = re.compile(rf"{_PLACE.pattern}/start-(\d{{8}}T\d{{9}}Z)-[0-9a-f]{{16}}\.jsonl\.gz")
# The time in a name; `%f` takes the milliseconds as a part of a second.
_STAMP = "%Y%m%dT%H%M%S%fZ"
# What a killed writer leaves behind. A writer that lives is done long before an hour.
_TORN = re.compile(rf"{re.escape(TEMPORARY)}[0-9a-f]{{16}}")
_TORN_S = 3600.0


class ArchiveMatches(Struct, frozen=True, kw_only=True):
    """`starts` match, newest first.

    `unknown` names the facts that neither side knows, so that they are assumed to be equal.
    `skipped` holds one sentence for each unusable file.
    """

    starts: tuple[ArchivedFile, ...] = ()
    unknown: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def builds(self) -> int:
        """How many independent builds made the starts; unknown ones count as one together."""
        return len({file.start.build_id for file in self.starts})

    @property
    def unknown_builds(self) -> int:
        """How many of the starts name no build."""
        return sum(file.start.build_id is None for file in self.starts)


class Archive:
    """The archive at `place`: a directory, or the address of an object store.

    Starts older than `days` are not used, and `evict` keeps the archive below `limit` bytes.
    `redactor` removes the secrets of a start that is kept, and `signer` signs it. With `signers`, only what one of these
    has signed is used.
    """

    def __init__(
        self,
        place: Path | str,
        *,
        days: float,
        limit: int,
        redactor: Redactor | None = None,
        signer: Signer | None = None,
        signers: AllowedSigners | None = None,
    ) -> None:
        self.place = place
        self._signer = signer
        self._signers = signers
        self.days = days
        self.limit = limit
        self._redactor = redactor or Redactor(())
        # Of an object store, whose starts are read back from here. Removed with this object.
        self._copies: Path | None = None

    @property
    def directory(self) -> Path:
        """What its files are relative to: nothing but their names for an object store."""
        return self.place if isinstance(self.place, Path) else Path()

    def find(
        self, identity: Identity, requests: Sequence[str], passes: int, newest: int = NEWEST
    ) -> ArchiveMatches:
        """The archived starts of `identity`, for these request ids and this number of passes.

        A place that is absent or unreadable holds no starts; `skipped` says so. Their number makes
        their name: a1 is the newest. Raises UsageError for an address that is not allowed.
        """
        skipped: list[str] = []
        starts: list[ArchivedFile] = []
        by_build: Counter[str | None] = Counter()
        try:
            store = archive_store(self.place)
            objects = list(store.names(f"{place_of(identity)}/"))
        except StoreError as error:
            return ArchiveMatches(skipped=(error.message,))
        recent = [each for each in reversed(_dated(objects)) if each.age_days() <= self.days]
        for each in recent[: newest * _READ_FACTOR]:
            try:
                file = self._start(store, each.name, identity, requests, passes)
            except FileNotFoundError:  # evicted meanwhile
                continue
            except (StoreError, NotAnArchiveError, OSError) as error:
                skipped.append(_why_skipped(error, f"{store.location}/{each.name}"))
                continue
            by_build[file.start.build_id] += 1
            if by_build[file.start.build_id] <= _MOST_OF_A_BUILD:
                start = file.start.numbered(len(starts) + 1)
                starts.append(ArchivedFile(start, file.path, file.places))
            if len(starts) == newest:
                break
        unknown = tuple(identity.unknown) if starts else ()
        return ArchiveMatches(starts=tuple(starts), unknown=unknown, skipped=tuple(skipped))

    def keep(
        self,
        identity: Identity,
        result: StartResult,
        lines: Iterable[bytes],
        *,
        build: str,
        origin: tuple[str | None, str | None] = (None, None),
        recorded_at: str | None = None,
    ) -> Path:
        """Archive one baseline start. Returns its file, relative to an object store.

        `lines` are those of the run's samples file, without secrets. `build` names the build in
        words, `origin` are its identity and its commit; `recorded_at` is RFC 3339, now by default. Raises
        ValueError for an `unfit` start or one with missing samples, and UsageError if the archive
        cannot be written.
        """
        if reason := unfit(result):
            raise ValueError(reason)
        when = recorded_at or clock.timestamp()
        start = ArchivedStart(
            identity=identity,
            recorded_at=when,
            build=build,
            build_id=origin[0],
            commit=origin[1],
            passes=max(map(len, result.digests.values())),
            result=for_others(recordable(result, self._redactor), result),
        )
        # Two agents may keep a start in the same millisecond.
        name = f"{place_of(identity)}/start-{stamp(when)}-{secrets.token_hex(8)}.jsonl.gz"
        try:
            if isinstance(self.place, Path):
                make_directory(self.place)
            store = archive_store(self.place)
            content = archived_bytes(start, lines)
            if len(content) > _MOST_BYTES:
                raise ValueError(f"{result.start.name} has {len(content)} bytes, too many to keep")
            if self._signer is not None:
                # Before the start: no reader sees it without.
                store.create(name + _SIGNATURE, self._signer.sign(content).encode("ascii"))
            store.create(name, content)
        except (StoreError, OSError) as error:
            what = f"cannot write {self.place}/{name}: "
            why = error.message if isinstance(error, StoreError) else error.strerror or error
            # A store in a directory names the same file itself.
            raise UsageError(
                what + str(why).removeprefix(what),
                hint="name a place that this user can write",
            ) from error
        return self.directory / name

    def evict(self) -> tuple[Path, ...]:
        """Remove expired starts, then the oldest until the archive is below its limit.

        Returns the removed files, as keep() does. Only files of the archive itself are removed, by
        their names and places. Raises StoreError if it cannot be listed.
        """
        store = archive_store(self.place)
        files = _dated(self._objects(store))
        total = sum(file.bytes for file in files)
        removed = []
        # Oldest first.
        for file in files:
            if total <= self.limit and file.age_days() <= self.days:
                continue
            # A file that cannot be removed is left, and its bytes still count.
            with contextlib.suppress(StoreError):
                store.remove(file.name)
                store.remove(file.name + _SIGNATURE)
                removed.append(self.directory / file.name)
                total -= file.bytes
        if isinstance(self.place, Path):
            remove_remains(self.place)
        return tuple(removed)

    def _objects(self, store: ObjectStore) -> list[StoredObject]:
        """The objects of all identities. Raises StoreError if an object store cannot be listed."""
        if not isinstance(self.place, Path):
            return list(store.names(_IDENTITIES))
        objects: list[StoredObject] = []
        for each in _identity_places(self.place):
            # A subdirectory that cannot be listed may be another user's, and hides no other.
            with contextlib.suppress(StoreError):
                objects += store.names(f"{each.name}/")
        return objects

    def _start(
        self,
        store: ObjectStore,
        name: str,
        identity: Identity,
        requests: Sequence[str],
        passes: int,
    ) -> ArchivedFile:
        """The start of this name, if it is of this identity and answers this. Raises NotAnArchiveError."""
        file = read_start(self._local(store, name))
        if file.start.identity.digest() != identity.digest():
            raise NotAnArchiveError("it was made under another identity than that of its directory")
        if file.start.passes != passes or file.start.result.digests.keys() != set(requests):
            raise NotAnArchiveError("it answers other requests, or in other passes")
        # A signature is of the content: an old start under a new name would never expire.
        if self._signers is not None and stamp(file.start.recorded_at) not in name:
            raise NotAnArchiveError("it was recorded at another time than its name says")
        return file

    def _local(self, store: ObjectStore, name: str) -> Path:
        """A file with this object: its own in a directory, else a copy. FileNotFoundError without one.

        What must be signed is a copy of the bytes that are. Raises UntrustedError if they are not.
        """
        if isinstance(self.place, Path) and self._signers is None:
            return self.place / name
        content = store.read(name, _MOST_BYTES)
        if content is None:
            raise FileNotFoundError(name)
        if self._signers is not None:
            _check_signature(store, name, content, self._signers)
        if self._copies is None:
            copies = contextlib.ExitStack()
            self._copies = Path(copies.enter_context(own_directory("archive")))
            weakref.finalize(self, copies.close)
        copy = self._copies / name.rpartition("/")[2]
        copy.write_bytes(content)
        return copy


def _check_signature(
    store: ObjectStore, name: str, content: bytes, signers: AllowedSigners
) -> None:
    """Raises UntrustedError unless one of `signers` has signed the content of this object."""
    armored = store.read(name + _SIGNATURE, MOST_ARMORED_BYTES)
    where = f"{store.location}/{name}"
    if armored is None:
        raise UntrustedError(Distrust.UNSIGNED, f"{where} is not signed")
    try:
        now_ms = round(_now().timestamp() * 1000)
        verify(content, armored.decode(errors="replace"), signers, NAMESPACE, now_ms)
    except UntrustedError as error:
        raise UntrustedError(
            error.distrust, f"{where}: {error.message}", hint=error.hint
        ) from error


def _why_skipped(error: StoreError | NotAnArchiveError | OSError, where: str) -> str:
    if isinstance(error, StoreError):
        return error.message
    return f"{where}: {error.strerror if isinstance(error, OSError) else error}"


def archive_place(address: str) -> Path | str:
    """A directory as a path, and an object store by its address. Raises UsageError for other URLs."""
    if is_remote(address):
        return address.rstrip("/")
    return directory_of(address)


def archive_store(place: Path | str) -> ObjectStore:
    """The store at `place`; nothing is sent yet.

    Credentials are those of this process's environment. Raises UsageError for an address that is
    not allowed, and StoreError if the library for object stores is not installed.
    """
    if isinstance(place, Path):
        return DirectoryStore(place)
    return open_store(place, os.environ, timeout_s=TIMEOUT_S)


def place_of(identity: Identity) -> str:
    """The directory of an identity's starts."""
    return f"{_IDENTITIES}{identity.digest()}"


class _DatedFile(Struct, frozen=True, order=True):
    """The file of one archived start, by its name in the store. Ordered by age, oldest first."""

    made_at: datetime
    name: str
    bytes: int

    def age_days(self) -> float:
        """Days since it was made; 0 if another machine's clock is ahead of ours."""
        return max(0.0, (_now() - self.made_at).total_seconds() / 86400)


def _now() -> datetime:
    return datetime.fromisoformat(clock.timestamp())


def _dated(objects: Iterable[StoredObject]) -> list[_DatedFile]:
    """The starts among `objects`, oldest first."""
    files = []
    for each in objects:
        if match := _START.fullmatch(each.name):
            # Digits in the right places may still be the 31st of February.
            with contextlib.suppress(ValueError):
                made_at = datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
                files.append(_DatedFile(made_at, each.name, each.bytes))
    return sorted(files)


def stamp(recorded_at: str) -> str:
    """An RFC 3339 time as part of a file's name, to the millisecond. Raises ValueError."""
    # In UTC, so that the names of files from all machines sort by time.
    when = datetime.fromisoformat(recorded_at).astimezone(UTC)
    return f"{when:%Y%m%dT%H%M%S}{when.microsecond // 1000:03}Z"


def _identity_places(directory: Path) -> Iterator[Path]:
    """The subdirectories of an archive's identities, by name; none if it cannot be listed."""
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return
    for path in entries:
        with contextlib.suppress(OSError):
            # A link may lead to a directory of somebody else.
            if _PLACE.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                yield path


def remove_remains(directory: Path) -> None:
    """Remove temporary files that are an hour old, and identities' directories that are empty.

    An object store has neither. Raises nothing.
    """
    places = list(_identity_places(directory))
    oldest = _now().timestamp() - _TORN_S
    for folder in (directory, *places):
        with contextlib.suppress(OSError):
            for path in list(folder.iterdir()):
                # `lstat`: the age of a link itself, and not that of the file it leads to.
                if _TORN.fullmatch(path.name) and path.lstat().st_mtime < oldest:
                    path.unlink(missing_ok=True)
    for place in places:
        # It fails if anything is in it, also a file that a writer has just begun.
        with contextlib.suppress(OSError):
            place.rmdir()
