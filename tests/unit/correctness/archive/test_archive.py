# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ci_doctor.correctness.archive.archive import Archive, unfit
from ci_doctor.correctness.archive.near_misses import explain_near_miss
from ci_doctor.correctness.evidence.samples import Outputs
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.system import clock
from tests.unit.correctness.archived import IDENTITY, IDS, OLD, kept, made, output


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
    assert start.result().start.levels == result.start.levels


def test_an_output_is_read_back_by_its_digest(archive: Archive, tmp_path: Path) -> None:
    kept(archive, tmp_path)
    (start,) = archive.find(IDENTITY, IDS, 2).starts
    outputs = Outputs()
    for digest, place in start.places.items():
        outputs.note(digest, start.path, place)

    said = {request: outputs[start.digests[request][2]] for request in IDS}

    assert said == {"r0": output("a"), "r1": output("b"), "r2": output("c")}


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
    assert [start.build for start in archive.find(IDENTITY, IDS, 2).starts] == ["build 43"]
    assert [each.name for each in archive.directory.iterdir()] == [path.parent.name]


def test_a_start_without_its_description_yet_is_not_called_damaged(
    archive: Archive, tmp_path: Path
) -> None:
    path = kept(archive, tmp_path)
    (path.parent / "identity.json").unlink()

    found = archive.find(Identity.of({"driver": "560"}, {}), IDS, 2)

    assert (found.near, found.skipped) == ((), ())
