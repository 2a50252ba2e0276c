"""What a trial wrote is taken back."""

import json
from pathlib import Path

from ci_doctor.pytest_runs.explaining import undo


def test_what_was_made_is_removed_and_what_was_changed_is_written_back(tmp_path: Path) -> None:
    copy, changed = tmp_path / "copy", tmp_path / "changed"
    copy.write_text("before")
    changed.write_text("after")
    folder, link, other = tmp_path / "made", tmp_path / "link", tmp_path / "other"
    (folder / "below").mkdir(parents=True)
    other.mkdir()
    link.symlink_to(other)
    record = tmp_path / "undo.json"
    made = [str(folder), str(link), str(tmp_path / "gone")]
    record.write_text(json.dumps({"made": made, "changed": {str(changed): str(copy)}}))

    undo(record)

    assert changed.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "changed",
        "copy",
        "other",
        "undo.json",
    ]


def test_without_a_record_nothing_is_touched(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()

    undo(tmp_path / "undo.json")

    assert (tmp_path / "kept").exists()
