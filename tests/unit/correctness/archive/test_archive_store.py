# SPDX-License-Identifier: Apache-2.0
"""Archives in a directory and in S3 (moto's imitation of it) behave alike."""

import errno
import itertools
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ci_doctor.correctness.archive import archive_store as opening
from ci_doctor.correctness.archive.archive import Archive
from ci_doctor.correctness.archive.archive_store import archive_place, archive_store
from ci_doctor.correctness.archive.build_origin import BuildOrigin
from ci_doctor.correctness.archive.near_misses import explain_near_miss
from ci_doctor.correctness.archive.revoke import revoke
from ci_doctor.correctness.archive.run_archive import RunArchive, keep_baseline
from ci_doctor.correctness.archive.survey import survey
from ci_doctor.correctness.evidence.samples import Outputs
from ci_doctor.correctness.settings import ArchiveWrite
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.model.verdict import Verdict
from ci_doctor.store.directory_store import DirectoryStore
from tests.support.s3_server import BUCKET, environment, s3_server
from tests.unit.correctness.archived import IDENTITY, IDS, OLD, kept, made, output
from tests.unit.correctness.experiments import experiment

GOOD = "a" * 40
BAD = "b" * 40
_numbers = itertools.count()


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environ:
        yield environ


@pytest.fixture(params=["directory", "s3"])
def stored(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Archive:
    place: Path | str = tmp_path / "archive"
    if request.param == "s3":
        for name, value in request.getfixturevalue("s3").items():
            monkeypatch.setenv(name, value)
        place = archive_place(f"s3://{BUCKET}/baselines/{next(_numbers)}")
    return Archive(place, days=30, limit=1 << 30)


def names(archive: Archive) -> list[str]:
    return sorted(each.name for each in archive_store(archive.place).names(""))


def keep(archive: Archive, directory: Path, commit: str) -> Path:
    result, lines = made(directory / "samples.jsonl")
    origin = BuildOrigin(id=f"build of {commit[:7]}", commit=commit)
    return archive.keep(IDENTITY, result, lines, build="build 42", origin=origin)


def test_a_start_is_found_again_with_its_answers(stored: Archive, tmp_path: Path) -> None:
    result, lines = made(tmp_path / "samples.jsonl")
    path = stored.keep(IDENTITY, result, lines, build="build 42")

    found = stored.find(IDENTITY, IDS, 2)

    (start,) = found.starts
    assert (found.skipped, start.answers) == ((), result.start.answers)
    outputs = Outputs()
    for digest, place in start.places.items():
        outputs.note(digest, start.path, place)
    assert outputs[start.digests["r1"][2]] == output("b")
    name = str(path.relative_to(stored.directory))
    assert names(stored) == [f"identity-{IDENTITY.digest()}/identity.json", name]


def test_a_near_miss_is_explained(stored: Archive, tmp_path: Path) -> None:
    kept(stored, tmp_path)

    found = stored.find(
        Identity.of({"driver": "560.35", "vllm": "0.9.1"}, IDENTITY.unknown), IDS, 2
    )

    assert found.skipped == ()
    (line,) = explain_near_miss(found.near)
    assert line.endswith("(1 start, less than a minute old) differs in: driver 550.54 -> 560.35")


def test_revoked_starts_are_listed_and_not_used(stored: Archive, tmp_path: Path) -> None:
    good = keep(stored, tmp_path, GOOD)
    keep(stored, tmp_path, BAD)

    revoke(stored.place, BAD, "wrong kernels", {})

    found = stored.find(IDENTITY, IDS, 2)
    assert [start.path.name for start in found.starts] == [good.name]
    assert (found.revoked, found.skipped) == (1, ())
    listed = survey(stored.place)
    revoked = {start.origin and start.origin.commit for start in listed.starts}
    assert (revoked, listed.skipped) == ({GOOD, BAD}, ())
    assert f"revoked-{BAD}.json" in names(stored)


def test_expired_starts_go_and_the_description_with_the_last(
    stored: Archive, tmp_path: Path
) -> None:
    old = kept(stored, tmp_path, Identity.of({"driver": "1"}), recorded_at=OLD)
    new = kept(stored, tmp_path)

    assert stored.evict() == (old,)

    place = str(new.relative_to(stored.directory).parent)
    assert [name.partition("/")[0] for name in names(stored)] == [place, place]
    stored.limit = 0
    assert stored.evict() == (new,)
    assert names(stored) == []


def test_a_damaged_start_is_told_and_not_used(stored: Archive, tmp_path: Path) -> None:
    good = kept(stored, tmp_path)
    store = archive_store(stored.place)
    name = str(good.relative_to(stored.directory))
    content = store.read(name, 1 << 20)
    assert content is not None
    bad = f"{name[: -len('0123456789abcdef.jsonl.gz')]}{'0' * 16}.jsonl.gz"
    store.create(bad, content[:-5])

    found = stored.find(IDENTITY, IDS, 2)

    assert [start.path.name for start in found.starts] == [good.name]
    assert found.skipped == (f"{store.location}/{bad}: its samples are cut short",)


def test_a_directory_of_another_user_hides_no_other(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(archive, tmp_path, BAD)
    closed = kept(archive, tmp_path, Identity.of({"driver": "1"})).parent
    old = kept(archive, tmp_path, Identity.of({"driver": "2"}), recorded_at=OLD)
    scandir = os.scandir

    def refusing(path: Path) -> Iterator[os.DirEntry[str]]:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)

    revoke(archive.place, BAD, None, {})
    assert survey(archive.place).skipped == (f"cannot list {closed}: Permission denied",)
    assert archive.find(IDENTITY, IDS, 2).revoked == 1
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

    assert (found.starts, found.near) == ((), ())
    (told,) = found.skipped
    assert "no answer in 0.3 s" in told


CALLS: list[Callable[[Archive], object]] = [
    lambda archive: survey(archive.place),
    lambda archive: revoke(archive.place, BAD, None, {}),
]


@pytest.mark.parametrize("call", CALLS, ids=["list", "revoke"])
def test_what_cannot_be_read_is_not_listed_as_empty(
    silent: Archive, call: Callable[[Archive], object]
) -> None:
    with pytest.raises(UsageError, match=r"no archive in s3://bucket/baselines: .* no answer"):
        call(silent)


def test_what_cannot_be_written_is_told(silent: Archive, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write s3://bucket/baselines/.* no answer"):
        kept(silent, tmp_path)


def test_nothing_is_archived_if_nobody_knows_what_is_revoked(
    silent: Archive, tmp_path: Path
) -> None:
    result, _ = made(tmp_path / "samples.jsonl")
    run_archive = RunArchive(
        archive=silent,
        identity=IDENTITY,
        matches=silent.find(IDENTITY, IDS, 2),
        write=ArchiveWrite.ALWAYS,
    )
    ended = experiment(result)

    said = keep_baseline(
        run_archive, ended, Verdict.PASS, tmp_path / "samples.jsonl", {}, BuildOrigin(id="1")
    )

    (line,) = said
    assert line.startswith("nothing was archived: ")
    assert "no answer in 0.3 s" in line


# --- addresses ---


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("kept", Path("kept")),
        ("file:///mnt/kept", Path("/mnt/kept")),
        ("s3://bucket/prefix/", "s3://bucket/prefix"),
    ],
)
def test_an_address_is_a_directory_or_an_object_store(address: str, place: Path | str) -> None:
    assert archive_place(address) == place


def test_a_directory_needs_no_library_of_the_extra(tmp_path: Path) -> None:
    assert isinstance(archive_store(tmp_path), DirectoryStore)


def test_no_other_url_is_a_place() -> None:
    with pytest.raises(UsageError, match="http://"):
        archive_place("http://example.org/kept")
