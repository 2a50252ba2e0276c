# SPDX-License-Identifier: Apache-2.0
"""Revoked starts: not used, not archived again, evicted first; nothing of it is ever changed."""

from pathlib import Path

import pytest

from ci_doctor.correctness.archive.archive import Archive
from ci_doctor.correctness.archive.build_origin import BuildOrigin
from ci_doctor.correctness.archive.outcomes import list_outcome
from ci_doctor.correctness.archive.revocations import marker, read_revocations
from ci_doctor.correctness.archive.revoke import revoke
from ci_doctor.correctness.archive.survey import survey
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.model.facts.archive import ArchiveListFacts, ArchiveRevokeFacts
from tests.unit.correctness.archived import IDENTITY, IDS, made

GOOD = "a" * 40
BAD = "b" * 40
OTHER = Identity.of({"driver": "560.35"})
ELSEWHERE: dict[str, str] = {}


def keep(
    archive: Archive,
    directory: Path,
    commit: str,
    *,
    build: str | None = None,
    identity: Identity = IDENTITY,
    recorded_at: str | None = None,
) -> Path:
    result, lines = made(directory / "samples.jsonl")
    origin = BuildOrigin(id=build or f"build of {commit[:7]}", commit=commit)
    return archive.keep(
        identity, result, lines, build="build 42", origin=origin, recorded_at=recorded_at
    )


def test_starts_of_a_revoked_commit_are_used_under_no_identity(
    archive: Archive, tmp_path: Path
) -> None:
    good = keep(archive, tmp_path, GOOD)
    bad = keep(archive, tmp_path, BAD)
    elsewhere = keep(archive, tmp_path, BAD, identity=OTHER)
    before = bad.read_bytes()

    outcome = revoke(archive.directory, BAD[:7], "wrong kernels", ELSEWHERE)

    found = archive.find(IDENTITY, IDS, 2)
    assert [start.path for start in found.starts] == [good]
    assert found.revoked == 1
    assert archive.find(OTHER, IDS, 2).starts == ()
    assert bad.read_bytes() == before
    assert isinstance(outcome.facts, ArchiveRevokeFacts)
    assert outcome.facts.reason == "wrong kernels"
    names = {str(path.relative_to(archive.directory)) for path in (bad, elsewhere)}
    assert set(outcome.facts.starts) == names


def test_a_start_that_arrives_after_the_revocation_is_not_used_either(
    archive: Archive, tmp_path: Path
) -> None:
    keep(archive, tmp_path, BAD)
    revoke(archive.directory, BAD, None, ELSEWHERE)
    # As an earlier version of ci-doctor does, which knows no revocation.
    keep(archive, tmp_path, BAD)
    found = archive.find(IDENTITY, IDS, 2)
    assert (found.starts, found.revoked) == ((), 2)


def test_a_build_is_revoked_by_its_id_alone(archive: Archive, tmp_path: Path) -> None:
    keep(archive, tmp_path, GOOD, build="0190-bad")
    kept = keep(archive, tmp_path, GOOD, build="0190-good")
    revoke(archive.directory, "0190-bad", None, ELSEWHERE)
    assert [start.path for start in archive.find(IDENTITY, IDS, 2).starts] == [kept]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"starts": 3}'])
def test_a_damaged_marker_still_revokes(archive: Archive, tmp_path: Path, content: bytes) -> None:
    keep(archive, tmp_path, BAD)
    marker(archive.directory, BAD).write_bytes(content)
    found = archive.find(IDENTITY, IDS, 2)
    assert (found.starts, found.revoked) == ((), 1)


def test_an_archive_whose_revocations_cannot_be_listed_is_not_used(tmp_path: Path) -> None:
    place = tmp_path / "archive"
    place.write_text("a file and no directory")
    found = Archive(place, days=30, limit=1 << 30).find(IDENTITY, IDS, 2)
    assert found.starts == ()
    assert "Not a directory" in found.skipped[0]


def test_revoking_twice_changes_nothing(archive: Archive, tmp_path: Path) -> None:
    keep(archive, tmp_path, BAD)
    revoke(archive.directory, BAD, "the first reason", ELSEWHERE)
    content = marker(archive.directory, BAD).read_bytes()

    again = revoke(archive.directory, BAD, "another", ELSEWHERE)

    assert marker(archive.directory, BAD).read_bytes() == content
    assert isinstance(again.facts, ArchiveRevokeFacts)
    assert again.facts.was_revoked
    assert again.facts.reason == "the first reason"


def test_removing_the_marker_undoes_it(archive: Archive, tmp_path: Path) -> None:
    keep(archive, tmp_path, BAD)
    revoke(archive.directory, BAD, None, ELSEWHERE)
    marker(archive.directory, BAD).unlink()
    assert len(archive.find(IDENTITY, IDS, 2).starts) == 1


def test_revoked_starts_are_evicted_before_older_ones(archive: Archive, tmp_path: Path) -> None:
    older = keep(archive, tmp_path, GOOD, recorded_at="2026-01-01T00:00:00Z")
    bad = keep(archive, tmp_path, BAD)
    revoke(archive.directory, BAD, None, ELSEWHERE)
    archive.days = 1e6
    archive.limit = older.stat().st_size + bad.stat().st_size

    removed = archive.evict()

    assert removed == (bad,)
    assert older.exists()
    # A build of that commit may run again.
    assert marker(archive.directory, BAD).exists()


def test_files_that_a_marker_names_outside_of_the_archive_are_never_removed(
    archive: Archive, tmp_path: Path
) -> None:
    keep(archive, tmp_path, GOOD)
    outside = tmp_path / "outside.jsonl.gz"
    outside.write_bytes(b"of somebody else")
    content = b'{"starts": ["../outside.jsonl.gz"]}'
    marker(archive.directory, BAD).write_bytes(content)
    archive.limit = 1
    archive.evict()
    assert outside.exists()


def test_only_files_of_these_names_revoke(archive: Archive, tmp_path: Path) -> None:
    keep(archive, tmp_path, BAD)
    for name in (f"revoked-{BAD[:12]}.json", f"revoked-{BAD}.json.tmp", f".revoked-{BAD}.json.x"):
        (archive.directory / name).write_text("{}")
    assert read_revocations(archive.directory).by_key == {}


def test_a_survey_lists_builds_newest_first_and_what_is_unreadable(
    archive: Archive, tmp_path: Path
) -> None:
    keep(archive, tmp_path, GOOD, recorded_at="2026-11-01T00:00:00Z")
    keep(archive, tmp_path, BAD, recorded_at="2026-11-02T00:00:00Z")
    keep(archive, tmp_path, BAD, identity=OTHER, recorded_at="2026-11-03T00:00:00Z")
    result, lines = made(tmp_path / "samples.jsonl")
    archive.keep(IDENTITY, result, lines, build="b", recorded_at="2026-10-01T00:00:00Z")
    damaged = keep(archive, tmp_path, GOOD)
    damaged.write_bytes(b"")
    revoke(archive.directory, GOOD, "slow", ELSEWHERE)

    facts = list_outcome(survey(archive.directory)).facts

    assert isinstance(facts, ArchiveListFacts)
    assert [(each.commit, len(each.starts)) for each in facts.builds] == [
        (BAD, 2),
        (GOOD, 1),
        (None, 1),
    ]
    assert facts.builds[0].revoked is None
    assert str(facts.builds[1].revoked).endswith("slow")
    assert str(damaged) in facts.skipped[0]


def test_an_archive_that_is_not_there_cannot_be_listed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no archive"):
        survey(tmp_path / "nowhere")


def test_of_one_build_only_five_starts_are_used(archive: Archive, tmp_path: Path) -> None:
    older = keep(archive, tmp_path, GOOD, recorded_at="2026-11-01T00:00:00Z")
    for _ in range(6):
        keep(archive, tmp_path, BAD)
    archive.days = 1e6
    found = archive.find(IDENTITY, IDS, 2, newest=6)
    assert len(found.starts) == 6
    assert found.starts[5].path == older
    assert [start.number for start in found.starts] == [1, 2, 3, 4, 5, 6]
    assert (found.builds, found.unknown_builds) == (2, 0)
