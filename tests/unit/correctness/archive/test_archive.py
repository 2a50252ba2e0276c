# SPDX-License-Identifier: Apache-2.0
import gzip
import os
from pathlib import Path

import msgspec
import pytest

from ci_doctor.correctness.archive.archive import Archive, unfit
from ci_doctor.correctness.archive.evict import stamp
from ci_doctor.correctness.archive.near_misses import explain_near_miss
from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.tally import Tally, outcome
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.system import clock
from tests.unit.correctness.archived import IDENTITY, IDS, made, output

OLD = "2020-01-01T00:00:00.000Z"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "archive", days=30, limit=1 << 30)


def kept(
    archive: Archive, tmp_path: Path, identity: Identity = IDENTITY, recorded_at: str | None = None
) -> Path:
    result, lines = made(tmp_path / "samples.jsonl")
    return archive.keep(identity, result, lines, build="build 42", recorded_at=recorded_at)


@pytest.mark.parametrize("passes", [1, 2])
def test_what_is_kept_is_found_with_everything_that_a_comparison_needs(
    archive: Archive, tmp_path: Path, passes: int
) -> None:
    result, lines = made(tmp_path / "samples.jsonl", passes=passes)
    path = archive.keep(IDENTITY, result, iter(lines), build="build 42 of main")

    found = archive.find(IDENTITY, IDS, passes)

    (start,) = found.starts
    assert found.skipped == ()
    assert found.unknown == ("model.revision",)
    assert (start.path, start.build, start.empty) == (path, "build 42 of main", 0)
    assert start.answers == result.start.answers
    assert start.digests == result.digests
    assert start.prompts == result.start.prompts
    assert start.facts == {"libcublas.so.12": "12.4.5.8"}
    assert start.result().start.name == "a1"
    assert start.result().start.archived


def test_an_output_is_read_back_by_its_digest(archive: Archive, tmp_path: Path) -> None:
    kept(archive, tmp_path)
    (start,) = archive.find(IDENTITY, IDS, 2).starts
    outputs = Outputs()
    for digest, place in start.places.items():
        outputs.note(digest, start.path, place)

    said = {request: outputs[start.digests[request][2]] for request in IDS}

    assert said == {"r0": output("a"), "r1": output("b"), "r2": output("c")}


def test_an_output_without_its_secret_is_kept_as_it_was_written(
    archive: Archive, tmp_path: Path
) -> None:
    result, lines = made(
        tmp_path / "samples.jsonl", ("a", "sesame-open-1", "c"), secrets=["sesame-open-1"]
    )
    path = archive.keep(IDENTITY, result, lines, build="b")

    assert b"sesame" not in gzip.decompress(path.read_bytes())
    assert archive.find(IDENTITY, IDS, 2).starts[0].answers == result.start.answers


def test_the_samples_of_other_starts_are_passed_over(archive: Archive, tmp_path: Path) -> None:
    first, lines = made(tmp_path / "one.jsonl")
    second, more = made(tmp_path / "two.jsonl", ("x", "y", "z"), number=2)

    archive.keep(IDENTITY, second, [*lines, *more], build="b")

    (start,) = archive.find(IDENTITY, IDS, 2).starts
    assert start.answers == second.start.answers != first.start.answers


def test_a_start_whose_samples_are_not_all_there_is_not_kept(
    archive: Archive, tmp_path: Path
) -> None:
    result, lines = made(tmp_path / "samples.jsonl")

    with pytest.raises(ValueError, match=r"1 samples of A1 are missing, among them r2"):
        archive.keep(IDENTITY, result, lines[:-1], build="b")

    assert list(archive.directory.iterdir()) == []


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

    assert [start.recorded_at for start in found.starts] == [times[2], times[0]]
    assert [start.number for start in found.starts] == [1, 2]


def test_another_identity_other_requests_and_other_passes_do_not_match(
    archive: Archive, tmp_path: Path
) -> None:
    kept(archive, tmp_path)

    assert archive.find(Identity.of({"driver": "560.35", "vllm": "0.9.1"}), IDS, 2).starts == ()
    for requests, passes in ((IDS[:2], 2), ((*IDS, "r3"), 2), (IDS, 1)):
        found = archive.find(IDENTITY, requests, passes)
        assert found.starts == ()
        assert "it answers other requests, or in other passes" in found.skipped[0]


def test_an_expired_start_is_not_used_and_not_near(archive: Archive, tmp_path: Path) -> None:
    kept(archive, tmp_path, recorded_at=OLD)

    assert archive.find(IDENTITY, IDS, 2).starts == ()
    assert archive.find(Identity.of({"driver": "1"}), IDS, 2).near == ()


def test_the_nearest_misses_are_explained(archive: Archive, tmp_path: Path) -> None:
    for driver, vllm in (
        ("550.54", "0.9.2"),
        ("550.54", "0.9.2"),
        ("560.35", "0.9.3"),
        ("1", "2"),
        ("3", "4"),
    ):
        kept(archive, tmp_path, Identity.of({"driver": driver, "vllm": vllm}, IDENTITY.unknown))

    found = archive.find(IDENTITY, IDS, 2)

    assert [len(miss.differences) for miss in found.near] == [1, 2, 2]
    assert explain_near_miss(found.near)[0] == (
        "closest archived baseline (2 starts, less than a minute old) differs in: vllm 0.9.2 -> 0.9.1"
    )


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 5)


def _cut_in_the_first_line(path: Path) -> None:
    os.truncate(path, 40)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _foreign(path: Path) -> None:
    path.write_bytes(gzip.compress(b'{"format": "something else"}\n'))


def _no_gzip(path: Path) -> None:
    path.write_bytes(b"hello" * 100)


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)


def _flipped_in_the_first_line(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        _cut,
        _cut_in_the_first_line,
        _empty,
        _foreign,
        _no_gzip,
        _flipped,
        _flipped_in_the_first_line,
    ],
    ids=lambda function: function.__name__,
)
def test_a_damaged_file_is_told_and_not_used(
    archive: Archive, tmp_path: Path, damage: object
) -> None:
    good, bad = kept(archive, tmp_path), kept(archive, tmp_path)
    assert callable(damage)
    damage(bad)

    found = archive.find(IDENTITY, IDS, 2)

    assert [start.path for start in found.starts] == [good]
    (told,) = found.skipped
    assert told.startswith(f"{bad}: it")


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

    assert (found.starts, found.near, found.skipped) == ((), (), ())
    assert not (tmp_path / "nowhere").exists()


def test_an_archive_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result, lines = made(tmp_path / "samples.jsonl")

    with pytest.raises(UsageError, match="cannot write"):
        Archive(tmp_path / "file", days=1, limit=1).keep(IDENTITY, result, lines, build="b")


def test_what_is_expired_goes(archive: Archive, tmp_path: Path) -> None:
    old, new = kept(archive, tmp_path, recorded_at=OLD), kept(archive, tmp_path)

    assert archive.evict() == (old,)
    assert new.exists()
    assert not old.exists()


def test_an_identity_without_starts_goes_with_its_directory(
    archive: Archive, tmp_path: Path
) -> None:
    old = kept(archive, tmp_path, recorded_at=OLD)

    archive.evict()

    assert list(archive.directory.iterdir()) == []
    assert not old.parent.exists()


def test_the_oldest_go_until_the_archive_is_below_its_limit(
    archive: Archive, tmp_path: Path
) -> None:
    year = int(clock.timestamp()[:4]) + 1
    paths = [
        kept(
            archive,
            tmp_path,
            Identity.of({"driver": str(month % 2)}),
            recorded_at=f"{year}-{month:02}-01T00:00:00Z",
        )
        for month in range(1, 9)
    ]
    size = paths[0].stat().st_size
    whole = sum(path.stat().st_size for path in archive.directory.rglob("*") if path.is_file())
    archive.limit = whole // 2

    gone = archive.evict()

    left = sum(path.stat().st_size for path in archive.directory.rglob("*") if path.is_file())
    assert left <= archive.limit < left + size + 100
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
    torn = [archive.directory / f".start-{name}.tmp" for name in ("abcdefgh", "ijklmnop")]
    for path in torn:
        path.write_text("")
    os.utime(torn[0], (0, 0))

    archive.evict()

    assert [path.exists() for path in torn] == [False, True]


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_an_outcome_is_that_of_the_tally(tmp_path: Path, passes: int) -> None:
    result, _ = made(tmp_path / "samples.jsonl", passes=passes)

    assert {
        request: outcome(each, passes) for request, each in result.digests.items()
    } == result.start.answers
    assert outcome({}, passes) is None
    empty = Tally(arm=Arm.BASELINE, number=1, ids=IDS, passes=passes).start(
        failed=False, outside=False
    )
    assert set(empty.answers.values()) == {None}
