# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.drift.snapshot import SNAPSHOT_FILE, encoded, read_snapshot, write_snapshot
from ci_doctor.errors import UsageError
from tests.support.snapshots import a_snapshot


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    snapshot = a_snapshot({"x": "1.0"}, facts={"driver": "580.1"}, variables={"A": None})

    write_snapshot(snapshot, tmp_path / "a.json")

    assert read_snapshot(tmp_path / "a.json") == snapshot
    assert encoded(snapshot) == (tmp_path / "a.json").read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("\xff", "it is not JSON"),
        ("[]", "`schema` is None"),
        ('{"schema": "ci-doctor/report/2"}', "`schema` is 'ci-doctor/report/2'"),
        ('{"schema": "ci-doctor/snapshot/new"}', "`schema` is 'ci-doctor/snapshot/new'"),
        ('{"schema": "ci-doctor/snapshot/1"}', "missing required field"),
        ('{"schema": "ci-doctor/snapshot/2"}', "written by a newer ci-doctor"),
    ],
)
def test_what_is_no_snapshot_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.json").write_text(content, encoding="latin-1")

    with pytest.raises(UsageError, match=message):
        read_snapshot(tmp_path / "a.json")


def test_a_field_of_a_later_version_of_the_schema_is_left_out(tmp_path: Path) -> None:
    text = encoded(a_snapshot()).decode().replace("{", '{"later": 1,', 1)
    (tmp_path / "a.json").write_text(text)

    assert read_snapshot(tmp_path / "a.json") == a_snapshot()


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_snapshot(tmp_path / "a.json")
    with pytest.raises(UsageError, match=f"holds no {SNAPSHOT_FILE}"):
        read_snapshot(tmp_path)
