# SPDX-License-Identifier: Apache-2.0
"""Baseline starts of earlier builds: what is kept, found and removed, and which build made them."""

import errno
import gzip
import os
import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from ci_doctor.correctness.archive import archive as opening
from ci_doctor.correctness.archive.archive import (
    Archive,
    archive_place,
    archive_store,
    build_of,
    origin_of_run,
    stamp,
    unfit,
)
from ci_doctor.correctness.evidence.run_identity import identify, read_run, write_run
from ci_doctor.correctness.evidence.samples import Outputs
from ci_doctor.correctness.settings import Arm, ExperimentPlan
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.store.objects import TEMPORARY
from ci_doctor.system import clock
from tests.support.builds import MAIN_BUILD
from tests.support.s3_server import environment
from tests.unit.correctness.archived import IDENTITY, IDS, OLD, kept, made, output
from tests.unit.correctness.plans import planned


@pytest.mark.parametrize("passes", [1, 2])
def test_what_is_kept_is_found_with_everything_that_a_comparison_needs(
    stored: Archive, tmp_path: Path, passes: int
) -> None:
    result, lines = made(tmp_path / "samples.jsonl", passes=passes)
    path = stored.keep(IDENTITY, result, iter(lines), build="build 42 of main")

    found = stored.find(IDENTITY, IDS, passes)

    (start,) = found.starts
    assert found.skipped == ()
    assert found.unknown == ("model.revision",)
    assert (start.path.name, start.start.build) == (path.name, "build 42 of main")
    assert names(stored) == [str(path.relative_to(stored.directory))]
    again = start.start.result
    assert again.start.answers == result.start.answers
    assert again.start.levels == result.start.levels
    assert again.start.prompts == result.start.prompts
    assert (again.start.name, again.start.archived) == ("a1", True)
    assert again.digests == result.digests
    assert again.facts == {"libcublas.so.12": "12.4.5.8"}
    outputs = Outputs()
    for digest, place in start.places.items():
        outputs.note(digest, start.path, place)
    assert outputs[again.digests["r1"][passes]] == output("b")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cut_short": True}, "did not come to its end"),
        ({"warm_up": True}, "did not come to its end"),
        ({"errors": {"r0": "HTTP 500"}}, "did not answer everything"),
        ({"start": {"failed": True}}, "did not come to its end"),
        ({"start": {"empty": 3}}, "empty answers only"),
        ({"start": {"proof_missing": ("x",)}}, "did not answer everything"),
        ({"start": {"arm": Arm.CANDIDATE}}, "no baseline start"),
        ({"start": {"archived": True}}, "no baseline start"),
        ({"start": {"answers": {"r0": None}}}, "did not answer everything"),
        ({"start": {"answers": {}}}, "did not answer everything"),
    ],
)
def test_a_start_that_proves_nothing_is_not_kept(
    archive: Archive, tmp_path: Path, change: dict[str, object], why: str
) -> None:
    result, lines = made(tmp_path / "samples.jsonl")
    inner = change.pop("start", {})
    assert isinstance(inner, dict)
    start = msgspec.structs.replace(result.start, **inner)
    wrong = msgspec.structs.replace(result, start=start, **change)

    assert unfit(result) is None
    with pytest.raises(ValueError, match=why):
        archive.keep(IDENTITY, wrong, lines, build="b")


def test_the_newest_come_first_and_no_more_than_asked_for(archive: Archive, tmp_path: Path) -> None:
    year = clock.timestamp()[:4]
    times = [
        f"{int(year) + 1}-01-0{day}T00:00:00.000Z" for day in (2, 1, 3)
    ]  # a clock that is ahead is no age
    for time in times:
        kept(archive, tmp_path, recorded_at=time)

    found = archive.find(IDENTITY, IDS, 2, newest=2)

    assert [start.start.recorded_at for start in found.starts] == [times[2], times[0]]
    assert [start.start.result.start.number for start in found.starts] == [1, 2]


def test_another_identity_other_requests_and_other_passes_do_not_match(
    archive: Archive, tmp_path: Path
) -> None:
    kept(archive, tmp_path)

    assert archive.find(Identity.of({"driver": "560.35", "vllm": "0.9.1"}), IDS, 2).starts == ()
    for requests, passes in ((IDS[:2], 2), ((*IDS, "r3"), 2), (IDS, 1)):
        found = archive.find(IDENTITY, requests, passes)
        assert found.starts == ()
        assert "it answers other requests, or in other passes" in found.skipped[0]


def test_a_start_in_another_identitys_directory_is_not_used(
    archive: Archive, tmp_path: Path
) -> None:
    path = kept(archive, tmp_path)
    other = kept(archive, tmp_path, Identity.of({"driver": "1"}))
    other.rename(path.parent / other.name)

    found = archive.find(IDENTITY, IDS, 2)

    assert [start.path for start in found.starts] == [path]
    assert "another identity" in found.skipped[0]


def test_an_archive_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    found = Archive(tmp_path / "nowhere", days=1, limit=1).find(IDENTITY, IDS, 2)

    assert (found.starts, found.skipped) == ((), ())
    assert not (tmp_path / "nowhere").exists()


def test_an_archive_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result, lines = made(tmp_path / "samples.jsonl")

    with pytest.raises(UsageError, match="cannot write"):
        Archive(tmp_path / "file", days=1, limit=1).keep(IDENTITY, result, lines, build="b")


# --- another agent evicts while this one writes ---


@pytest.fixture
def other_agent(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """Acts before and after each mkdir of the identity's directory: names what it did there.

    Before it keeps a start, so that the directory is there already; after it evicts everything. Five times.
    """
    done: list[str] = []
    greedy = Archive(archive.directory, days=30, limit=0)
    place = archive.directory / f"identity-{IDENTITY.digest()}"
    mkdir = os.mkdir
    busy = False

    def interleaved(path: str | Path, mode: int = 0o777) -> None:
        nonlocal busy
        if Path(path) != place or busy or len(done) >= 5:
            mkdir(path, mode)
            return
        busy = True
        try:
            # By turns: the directory was there and vanishes, it is made and vanishes.
            if len(done) % 2 == 0:
                kept(archive, tmp_path)
            mkdir(path, mode)
            done.append("made")
        except FileExistsError:
            done.append("exists")
            raise
        finally:
            greedy.evict()
            assert not place.exists()
            busy = False

    monkeypatch.setattr(os, "mkdir", interleaved)
    yield done
    monkeypatch.undo()


def test_a_start_is_kept_though_its_directory_vanishes_at_every_step(
    archive: Archive, tmp_path: Path, other_agent: list[str]
) -> None:
    result, lines = made(tmp_path / "own.jsonl")

    path = archive.keep(IDENTITY, result, lines, build="build 43")

    assert other_agent == ["exists", "made", "exists", "made", "exists"]
    assert path.is_file()
    assert [start.start.build for start in archive.find(IDENTITY, IDS, 2).starts] == ["build 43"]
    assert [each.name for each in archive.directory.iterdir()] == [path.parent.name]


def _passes_without_end(content: bytes) -> bytes:
    unpack = zlib.decompressobj(31)
    line = unpack.decompress(content)
    changed = line.replace(b'"passes":2', b'"passes":9223372036854775807')
    assert changed != line
    return gzip.compress(changed) + unpack.unused_data


def _flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


CUT = " is no whole gzip file: Compressed file ended before the end-of-stream marker was reached"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        pytest.param(lambda content: content[:-5], CUT, id="cut in the last line"),
        pytest.param(lambda content: content[:40], "", id="cut in the first line"),
        pytest.param(lambda _: b"", "", id="empty"),
        pytest.param(lambda _: b"hello" * 100, "", id="no gzip"),
        pytest.param(lambda _: gzip.compress(b'{"format": 1}\n'), "", id="foreign"),
        pytest.param(_passes_without_end, "", id="passes without end"),
        pytest.param(lambda content: _flipped(content, -40), "", id="flipped"),
        pytest.param(lambda content: _flipped(content, 60), "", id="flipped in the first line"),
    ],
)
def test_a_damaged_file_is_told_and_not_used(
    stored: Archive, tmp_path: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    good = kept(stored, tmp_path)
    store = archive_store(stored.place)
    name = str(good.relative_to(stored.directory))
    content = store.read(name, 1 << 20)
    assert content is not None
    bad = f"{name[: -len('0123456789abcdef.jsonl.gz')]}{'0' * 16}.jsonl.gz"
    store.create(bad, damage(content))

    found = stored.find(IDENTITY, IDS, 2)

    assert [start.path.name for start in found.starts] == [good.name]
    (told,) = found.skipped
    assert told.startswith(f"{store.location}/{bad}: it{said}")


def test_an_output_without_its_secret_is_kept_as_it_was_written(
    archive: Archive, tmp_path: Path
) -> None:
    result, lines = made(
        tmp_path / "samples.jsonl", ("a", "sesame-open-1", "c"), secrets=["sesame-open-1"]
    )
    path = archive.keep(IDENTITY, result, lines, build="b")

    assert b"sesame" not in gzip.decompress(path.read_bytes())
    assert (
        archive.find(IDENTITY, IDS, 2).starts[0].start.result.start.answers == result.start.answers
    )


def test_the_samples_of_other_starts_are_passed_over(archive: Archive, tmp_path: Path) -> None:
    first, lines = made(tmp_path / "one.jsonl")
    second, more = made(tmp_path / "two.jsonl", ("x", "y", "z"), number=2)

    archive.keep(IDENTITY, second, [*lines, *more], build="b")

    (start,) = archive.find(IDENTITY, IDS, 2).starts
    assert start.start.result.start.answers == second.start.answers != first.start.answers


def test_a_start_whose_samples_are_not_all_there_is_not_kept(
    archive: Archive, tmp_path: Path
) -> None:
    result, lines = made(tmp_path / "samples.jsonl")

    with pytest.raises(ValueError, match=r"1 samples of A1 are missing, among them r2"):
        archive.keep(IDENTITY, result, lines[:-1], build="b")

    assert list(archive.directory.iterdir()) == []


def test_the_oldest_go_until_the_archive_is_below_its_limit(
    archive: Archive, tmp_path: Path
) -> None:
    def whole() -> int:
        return sum(path.stat().st_size for path in archive.directory.rglob("*") if path.is_file())

    year = int(clock.timestamp()[:4]) + 1
    paths = []
    for month in range(1, 9):
        identity = Identity.of({"driver": str(month % 2)})
        paths.append(kept(archive, tmp_path, identity, f"{year}-{month:02}-01T00:00:00Z"))
    size = paths[0].stat().st_size
    archive.limit = whole() // 2

    gone = archive.evict()

    assert whole() <= archive.limit < whole() + size + 100
    assert list(gone) == paths[: len(gone)]
    assert all(path.exists() for path in paths[len(gone) :])


def test_files_of_others_are_never_touched(archive: Archive, tmp_path: Path) -> None:
    own = kept(archive, tmp_path, recorded_at=OLD)
    outside = tmp_path / "outside"
    outside.mkdir()
    others = [
        archive.directory / "README.md",
        archive.directory / f"start-{stamp(OLD)}-{'0' * 16}.jsonl.gz",
        own.parent / "notes.txt",
        own.parent / "start-2020.jsonl.gz",
        outside / f"start-{stamp(OLD)}-{'0' * 16}.jsonl.gz",
    ]
    for other in others:
        other.write_text("mine")
    (archive.directory / f"identity-{'a' * 64}").symlink_to(outside)
    archive.limit = 0

    assert archive.evict() == (own,)
    assert [other.read_text() for other in others] == ["mine"] * 5


def test_what_a_killed_writer_left_goes_after_an_hour_and_not_before(
    archive: Archive, tmp_path: Path
) -> None:
    kept(archive, tmp_path)
    torn = [archive.directory / f"{TEMPORARY}{name}" for name in ("0" * 16, "1" * 16)]
    for path in torn:
        path.write_text("")
    os.utime(torn[0], (0, 0))

    archive.evict()

    assert [path.exists() for path in torn] == [False, True]


@pytest.fixture
def stored(place: Path | str) -> Archive:
    return Archive(archive_place(str(place)), days=30, limit=1 << 30)


def names(archive: Archive) -> list[str]:
    return sorted(each.name for each in archive_store(archive.place).names(""))


def test_expired_starts_are_not_used_and_go_with_their_directory(
    stored: Archive, tmp_path: Path
) -> None:
    identity = Identity.of({"driver": "1"})
    old = kept(stored, tmp_path, identity, recorded_at=OLD)
    new = kept(stored, tmp_path)

    assert stored.find(identity, IDS, 2).starts == ()
    assert stored.evict() == (old,)
    assert not old.parent.exists()

    place = str(new.relative_to(stored.directory).parent)
    assert [name.partition("/")[0] for name in names(stored)] == [place]
    stored.limit = 0
    assert stored.evict() == (new,)
    assert names(stored) == []


def test_a_directory_of_another_user_hides_no_other(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(archive, tmp_path)
    closed = kept(archive, tmp_path, Identity.of({"driver": "1"})).parent
    old = kept(archive, tmp_path, Identity.of({"driver": "2"}), recorded_at=OLD)
    scandir = os.scandir

    def refusing(path: Path) -> Iterator[os.DirEntry[str]]:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)

    assert len(archive.find(IDENTITY, IDS, 2).starts) == 1
    assert archive.evict() == (old,)


# --- a store that cannot be used is no evidence ---


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    """An archive in a store that accepts connections and never answers."""
    monkeypatch.setattr(opening, "TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        for name, value in environment(f"http://127.0.0.1:{server.getsockname()[1]}").items():
            monkeypatch.setenv(name, value)
        yield Archive("s3://bucket/baselines", days=30, limit=1 << 30)


def test_an_archive_that_never_answers_holds_no_starts_and_says_so_once(silent: Archive) -> None:
    found = silent.find(IDENTITY, IDS, 2)

    assert found.starts == ()
    (told,) = found.skipped
    assert "no answer in 0.3 s" in told


def test_what_cannot_be_written_is_told(silent: Archive, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write s3://bucket/baselines/.* no answer"):
        kept(silent, tmp_path)


# --- addresses ---


def test_an_address_is_a_directory_or_an_object_store_and_no_other_url() -> None:
    assert archive_place("kept") == Path("kept")
    assert archive_place("file:///mnt/kept") == Path("/mnt/kept")
    assert archive_place("s3://bucket/prefix/") == "s3://bucket/prefix"
    with pytest.raises(UsageError, match="http://"):
        archive_place("http://example.org/kept")


def test_a_build_is_named_so_that_a_person_finds_it() -> None:
    assert (
        build_of(MAIN_BUILD)
        == "build 42 of main at 0123456789ab, https://buildkite.com/o/p/builds/42"
    )
    assert build_of({}) == "a local run"


TEXT = """
[services.base]
command = "sleep {port}"
cwd = "base"
[correctness]
baseline = { services = ["base"] }
candidate = { command = "sleep {port}" }
"""
JOB = {
    "BUILDKITE": "true",
    "BUILDKITE_JOB_ID": "0190-j",
    "BUILDKITE_BUILD_ID": "0190-b",
    "BUILDKITE_COMMIT": "HEAD",
}


def plan_of(directory: Path) -> ExperimentPlan:
    (directory / "base").mkdir(exist_ok=True)
    return planned(directory, TEXT)


COMMIT = "a" * 40


@pytest.mark.parametrize(
    ("environment", "origin"),
    [
        ({**JOB, "BUILDKITE_COMMIT": "b" * 40}, ("0190-b", "b" * 40)),
        # Another job of the build.
        ({**JOB, "BUILDKITE_JOB_ID": "0190-k"}, ("0190-b", COMMIT)),
        ({key: value for key, value in JOB.items() if "BUILD_ID" not in key}, ("0190-j", COMMIT)),
        # Elsewhere, and nothing describes the run.
        ({}, (None, COMMIT)),
    ],
)
def test_a_job_is_its_build(
    tmp_path: Path, environment: dict[str, str], origin: tuple[str | None, str]
) -> None:
    plan = replace(plan_of(tmp_path), environment=environment)
    assert origin_of_run(plan, COMMIT) == origin


def test_a_run_elsewhere_is_its_host_and_its_beginning(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    write_run(plan.directory, identify(plan))
    build = f"{os.uname().nodename} {read_run(plan.directory).started_at}"
    assert origin_of_run(plan, COMMIT) == (build, COMMIT)
