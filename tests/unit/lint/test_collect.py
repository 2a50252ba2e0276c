# SPDX-License-Identifier: Apache-2.0
"""Which lines differ from a base, and which files a glob of the settings means."""

from pathlib import Path

import pytest

from ci_doctor.lint.collect import changed_since
from ci_doctor.lint.lint_rule import Place
from ci_doctor.lint.source_files import Lines, matches
from tests.support.git_repository import git, make_repository

NUMBERS = "".join(f"{number}\n" for number in range(1, 10))


def lines_of(directory: Path, file: str) -> Lines:
    return changed_since(directory, "HEAD").lines[file]


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        pytest.param(NUMBERS.replace("3\n", "x\n"), ((3, 3),), id="replaced"),
        pytest.param(NUMBERS.replace("3\n", "3\nx\ny\n"), ((4, 5),), id="added"),
        pytest.param(NUMBERS.replace("3\n", ""), ((2, 3),), id="removed: the lines beside the gap"),
        pytest.param(NUMBERS.replace("1\n", ""), ((1, 1),), id="the first one removed"),
        pytest.param(NUMBERS + "@@ -1 +1 @@\n", ((10, 10),), id="like a header"),
        pytest.param(NUMBERS.replace("5", "\0"), ((5, 5),), id="binary"),
    ],
)
def test_changed_lines_are_those_of_the_file_as_it_is(
    after: str, lines: Lines, tmp_path: Path
) -> None:
    make_repository(tmp_path, {"x.sh": NUMBERS})
    (tmp_path / "x.sh").write_text(after)

    assert lines_of(tmp_path, "x.sh") == lines


@pytest.mark.parametrize("name", ['a "quoted"\n\t.sh', "dir/é.sh", "--- a.sh", " b.sh "])
def test_any_name_is_that_of_the_file(name: str, tmp_path: Path) -> None:
    make_repository(tmp_path, {name: NUMBERS, "other.sh": NUMBERS})
    for option in ("diff.noprefix", "diff.mnemonicPrefix", "core.quotePath"):
        git(tmp_path, "config", option, "true")
    git(tmp_path, "config", "color.ui", "always")
    git(tmp_path, "config", "diff.external", "false")
    for changed in (name, "other.sh"):
        (tmp_path / changed).write_text(NUMBERS.replace("7\n", "x\n"))

    changes = changed_since(tmp_path, "HEAD")

    assert changes.lines == {name: ((7, 7),), "other.sh": ((7, 7),)}


def test_a_carriage_return_in_a_line_is_no_line_of_the_patch(tmp_path: Path) -> None:
    make_repository(tmp_path, {"x.sh": NUMBERS})
    (tmp_path / "x.sh").write_bytes(NUMBERS.encode() + b"8\rdiff --git a/y b/y\r@@ -1 +1 @@\n")

    assert len(changed_since(tmp_path, "HEAD").lines) == 1
    assert (1, 1) not in lines_of(tmp_path, "x.sh")


def test_a_file_that_was_only_moved_has_no_changed_line(tmp_path: Path) -> None:
    make_repository(tmp_path, {"x.sh": NUMBERS})
    git(tmp_path, "mv", "x.sh", "y.sh")

    assert lines_of(tmp_path, "y.sh") == ()


def test_a_range_touches_a_change_inside_it_alone(tmp_path: Path) -> None:
    make_repository(tmp_path, {"x.sh": NUMBERS})
    (tmp_path / "x.sh").write_text(NUMBERS.replace("5\n", "x\n"))
    changes = changed_since(tmp_path, "HEAD")

    touched = [
        changes.touches(Place(file="x.sh", line=first, end_line=last))
        for first, last in ((1, 4), (4, 5), (5, 5), (5, 9), (6, 9))
    ]

    assert touched == [False, True, True, True, False]
    assert not changes.touches(Place(file="y.sh", line=5, end_line=5))


# Which files a glob of the settings means.


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("vendor/**", ["vendor/a.sh", "vendor/x/y.sh"], ["vendor", "x/vendor/a.sh"]),
        ("vendor/", ["vendor/a.sh"], ["vendored/a.sh"]),
        ("*.sh", ["a.sh", "x/y/a.sh"], ["a.sh.txt"]),
        ("ci/*.sh", ["ci/a.sh"], ["ci/x/a.sh"]),
        ("**/old/**", ["old/a", "x/y/old/z/a"], ["older/a"]),
        ("a/**/b.sh", ["a/b.sh", "a/x/y/b.sh"], ["b.sh"]),
        ("ci/?[!0-9].sh", ["ci/ab.sh"], ["ci/a1.sh", "ci/a/.sh"]),
        ("ci/[z-a].sh", [], ["ci/z.sh"]),
        ("*.{yml,yaml}", ["x/p.yml", "p.yaml"], ["p.toml"]),
        ("a{b", ["a{b"], ["ab"]),
    ],
)
def test_a_pattern_matches_as_git_does(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [matches(pattern, name) for name in yes] == [True] * len(yes)
    assert [matches(pattern, name) for name in no] == [False] * len(no)


def test_many_stars_take_no_exponential_time() -> None:
    assert not matches("**/a/" * 12 + "b", "a/" * 60 + "c")
