# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.model.facts.preparing import InitFile
from ci_doctor.scaffold.propose import short_diff, whole_diff
from tests.support.git_repository import git

FILE = InitFile(path="a/b.toml", text="one = 1\ntwo = 2\n", why="")


def test_a_new_file_is_a_diff_from_nothing() -> None:
    assert whole_diff([FILE]) == (
        "diff --git a/a/b.toml b/a/b.toml\nnew file mode 100644\n--- /dev/null\n+++ b/a/b.toml\n"
        "@@ -0,0 +1,2 @@\n+one = 1\n+two = 2\n"
    )


def test_for_a_person_long_files_and_lines_are_cut_and_say_so() -> None:
    made = InitFile(path="ci-doctor.schema.json", text="{}\n" * 3, why="")
    requests = InitFile(path="r.jsonl", text="x\n" * 9, why="")
    wide = InitFile(path="w", text="y" * 99, why="")
    text = short_diff([FILE, made, requests, wide], lines=1, width=20)
    assert "+one = 1\n  … 1 more line\n" in text
    assert "+{}" not in text
    assert "  … 3 more lines" in text
    assert text.count("+x") == 4
    assert f"+{'y' * 18}…" in text
    assert max(map(len, text.split("\n"))) <= 58  # the head names a file in whole


@pytest.mark.parametrize(
    "name", ["x", "a b/ü", 'a "b', "a\nb/c", "a\\b", "\x01\t", "\udcff\n", "d "]
)
def test_git_makes_the_file_of_every_name_and_every_character(name: str, tmp_path: Path) -> None:
    text = "a\u2028b\x0bc\x0cd\x85e\x1cf\rg\n\n"
    git(tmp_path, "init", "--quiet", "r")
    diff = whole_diff([InitFile(path=name, text=text, why=""), FILE])
    (tmp_path / "diff").write_bytes(diff.encode())
    git(tmp_path / "r", "apply", str(tmp_path / "diff"))
    assert (tmp_path / "r" / name).read_bytes() == text.encode()
    assert (tmp_path / "r" / FILE.path).read_text() == FILE.text
