# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

from ci_doctor.correctness.archive.remains import remove_remains
from ci_doctor.store.object_names import TEMPORARY


def test_unfinished_files_and_empty_directories_go_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / f"identity-{'a' * 64}"
    empty = tmp_path / f"identity-{'b' * 64}"
    others = tmp_path / "others"
    for folder in (place, empty, others):
        folder.mkdir()
    old = place / f"{TEMPORARY}{'0' * 16}"
    young = place / f"{TEMPORARY}{'1' * 16}"
    marker = tmp_path / f"{TEMPORARY}{'2' * 16}"
    foreign = place / f"{TEMPORARY}notes"
    for path in (old, young, marker, foreign):
        path.write_text("half")
    for path in (old, marker, foreign):
        os.utime(path, (0, 0))

    remove_remains(tmp_path)

    left = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    assert left == sorted(path.relative_to(tmp_path) for path in (place, young, foreign, others))
