# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.system.files.atomic import write_atomically
from ci_doctor.system.files.directories import in_directory, make_directory

PACKAGE = Path(__file__).parents[4] / "ci_doctor"


def test_a_directory_is_made_with_its_parents_and_left_if_it_is_there(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    make_directory(place)
    (place / "file").touch()
    make_directory(place)
    assert (place / "file").exists()


@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_what_is_no_directory_stays_and_is_an_error(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("theirs")
    else:
        place.symlink_to(tmp_path / "absent")
    with pytest.raises(FileExistsError):
        make_directory(place)
    assert place.is_symlink() or place.read_text() == "theirs"


def test_a_directory_that_vanishes_before_the_act_is_made_again(tmp_path: Path) -> None:
    place = tmp_path / "place"
    tries = []

    def act() -> str:
        tries.append(place.is_dir())
        if len(tries) < 5:
            place.rmdir()
        (place / "file").touch()
        return "done"

    assert in_directory(place, act) == "done"
    assert tries == [True] * 5
    assert (place / "file").exists()


def test_what_is_missing_for_another_reason_is_an_error_in_the_end(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        in_directory(tmp_path / "place", (tmp_path / "absent").read_bytes)


def test_a_write_whose_directory_vanishes_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "place" / "file"
    replace = Path.replace
    removals = iter([True, True, False])

    def interleaved(self: Path, other: Path) -> Path:
        if next(removals):
            self.unlink()
            target.parent.rmdir()
        return replace(self, other)

    monkeypatch.setattr(Path, "replace", interleaved)
    write_atomically(target, b"whole")
    assert target.read_bytes() == b"whole"
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_a_parent_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write"):
        write_atomically(tmp_path / "file" / "below", b"")


def test_no_other_module_trusts_in_a_directory_that_is_there_already() -> None:
    trusting = []
    for module in PACKAGE.rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        if re.search(r"mkdir\(.*exist_ok=True|makedirs\(", text):
            trusting.append(module.name)
    assert trusting == ["directories.py"]
