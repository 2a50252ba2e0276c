# SPDX-License-Identifier: Apache-2.0
"""What a run reads, and what it reports of it: real files, real git, readers with one rule each."""

import os
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.lint.collect import changed_since
from ci_doctor.lint.lint_rule import Place
from ci_doctor.lint.selection import LintSettings, PathSettings, baseline_of
from ci_doctor.lint.source_files import Lines, matches
from ci_doctor.model.outcome import Severity
from tests.support.cases import cases
from tests.support.git_repository import commit, git, make_repository
from tests.support.lint_runs import BAD, lint, reported

# --- what is read ---


def test_a_repository_is_read_from_its_root_with_each_kind_by_its_rules(tmp_path: Path) -> None:
    files = {
        "run.sh": BAD,
        "tools/hook": "#!/usr/bin/env -S bash -e\necho evil\n",
        ".buildkite/pipeline.yml": "steps:\n- label: late\n  command: echo evil\n",
        "values.yaml": "late: 1\n",
        "ci/gate.py": "slow = 1\n",
        "src/model.py": "slow = 1\n",
        "notes.md": "evil\n",
    }
    make_repository(tmp_path, files)

    ran = lint(tmp_path / "src")

    assert reported(ran) == [
        ("pipeline/late-step", ".buildkite/pipeline.yml", 2),
        ("shell/bad-word", ".buildkite/pipeline.yml", 3),
        ("gate/slow-gate", "ci/gate.py", 1),
        ("shell/bad-word", "run.sh", 2),
        ("shell/bad-word", "tools/hook", 2),
    ]


def test_untracked_files_are_read_and_ignored_ones_are_not_unless_named(tmp_path: Path) -> None:
    make_repository(tmp_path, {".gitignore": "out/\n"})
    for name in ("new.sh", "out/made.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(BAD)

    assert [file for _, file, _ in reported(lint(tmp_path))] == ["new.sh"]
    assert [file for _, file, _ in reported(lint(tmp_path, "out"))] == ["out/made.sh"]


def test_a_directory_outside_of_any_repository_is_walked(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.sh").write_text(BAD)

    ran = lint(tmp_path, "a")

    assert reported(ran) == [("shell/bad-word", "a/run.sh", 2)]
    assert not ran.scope.is_repository
    assert reported(lint(tmp_path / "a", "../a/run.sh")) == [("shell/bad-word", "run.sh", 2)]


@pytest.mark.parametrize("folder", ["third_party", "node_modules", "lib/site-packages"])
def test_files_of_other_projects_are_left_out_unless_named(folder: str, tmp_path: Path) -> None:
    make_repository(tmp_path, {f"{folder}/run.sh": BAD, "x.sh": "true\n"})

    assert reported(lint(tmp_path)) == []
    assert lint(tmp_path).tree.vendored == 1
    assert reported(lint(tmp_path, folder)) == [("shell/bad-word", f"{folder}/run.sh", 2)]


def test_a_path_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        lint(tmp_path, "missing.sh")


def test_paths_of_two_repositories_are_a_usage_error(tmp_path: Path) -> None:
    make_repository(tmp_path / "a", {"x.sh": BAD})
    make_repository(tmp_path / "b", {"x.sh": BAD})

    with pytest.raises(UsageError, match="does not lie in"):
        lint(tmp_path, "a/x.sh", "b/x.sh")


# --- a tree that nobody can trust ---


def test_links_pipes_and_deleted_files_are_counted_and_never_opened(tmp_path: Path) -> None:
    outside = tmp_path / "outside.sh"
    outside.write_text(BAD)
    tree = make_repository(
        tmp_path / "tree", {"gone.sh": BAD, "folder.sh/x": "", "ok.sh": "true\n"}
    )
    (tree / "gone.sh").unlink()
    (tree / "out.sh").symlink_to(outside)
    (tree / "root").symlink_to("/")
    os.mkfifo(tree / "pipe.sh")

    in_git = lint(tree)
    git(tree, "init", "--quiet", "--bare", "--", str(tmp_path / "elsewhere"))
    (tree / ".git").rename(tmp_path / "away")
    walked = lint(tree)

    for ran in (in_git, walked):
        assert reported(ran) == []
        assert list(ran.files) == ["ok.sh"]
    assert (in_git.tree.links, in_git.tree.missing) == (2, 1)
    # git does not list a pipe.
    assert walked.tree.special == 1


def test_a_sourced_file_outside_of_the_root_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.sh").write_text(BAD)
    tree = make_repository(
        tmp_path / "tree", {"run.sh": "source ../secret.sh\nsource lib.sh\nsource inner.sh\n"}
    )
    (tree / "lib.sh").symlink_to(tmp_path / "secret.sh")

    assert reported(lint(tree)) == []


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"echo caf\xe9 evil\n", id="latin-1"),
        pytest.param(b"\xef\xbb\xbfecho evil\n", id="byte-order-mark"),
        pytest.param(b"echo evil\r\n", id="crlf"),
        pytest.param(b"echo \x1b[31m evil", id="escape-and-no-line-end"),
    ],
)
def test_odd_bytes_are_read_all_the_same(content: bytes, tmp_path: Path) -> None:
    make_repository(tmp_path, {"other.sh": "true\n"})
    (tmp_path / "run.sh").write_bytes(content)

    assert reported(lint(tmp_path)) == [("shell/bad-word", "run.sh", 1)]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"#!/bin/sh\necho \0 evil\n", 2),
        ("echo evil\n".encode("utf-16"), 1),
        (b"echo\nif true\n", 3),
    ],
)
def test_what_cannot_be_read_is_a_finding_and_not_clean(
    content: bytes, line: int, tmp_path: Path
) -> None:
    make_repository(tmp_path, {"other.sh": "true\n"})
    (tmp_path / "run.sh").write_bytes(content)

    ran = lint(tmp_path)

    assert reported(ran) == [("lint/unreadable", "run.sh", line)]
    assert len(ran.unreadable) == 1


def test_names_that_are_no_text_are_read(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a b\nc.sh": BAD, "$(touch x).sh": BAD, "-rf.sh": BAD})
    (tmp_path / os.fsdecode(b"\xff.sh")).write_text(BAD)
    (tmp_path / "x\r.sh").write_text(BAD)

    assert len(reported(lint(tmp_path))) == 5


def test_one_line_of_a_megabyte_and_many_lines_are_read_in_one_pass(tmp_path: Path) -> None:
    long = "x" * 1_000_000 + " evil # ci-doctor: ignore[shell/bad-word] it is long\n"
    many = "true # ci-doctor: ignore[shell/bad-word] none\n" * 20_000
    make_repository(tmp_path, {"long.sh": long, "many.sh": many})

    ran = lint(tmp_path)

    assert ran.selection.silenced == 1
    assert len(reported(ran)) == 20_000


# --- comments ---


def silenced(tmp_path: Path, text: str, name: str = "run.sh") -> list[str]:
    make_repository(tmp_path, {name: text})
    return [rule for rule, _, _ in reported(lint(tmp_path))]


@pytest.mark.parametrize(
    "text",
    [
        "echo evil  # ci-doctor: ignore[shell/bad-word] a test of words\n",
        "# ci-doctor: ignore[shell/bad-word] a test of words\necho evil\n",
        "# ci-doctor: ignore[shell/bad-word] a test of words\n# that goes on here\necho evil\n",
        "# ci-doctor: ignore[shell/bad-word]: with a colon\necho good \\\n  evil\n",
        "echo evil \\\n  good  # ci-doctor: ignore[shell/bad-word] at its end\n",
    ],
)
def test_a_comment_silences_its_statement(text: str, tmp_path: Path) -> None:
    assert silenced(tmp_path, text) == []


@cases(
    ("name", "text", "reported"),
    {
        "nothing elsewhere": (
            "run.sh",
            "echo good  # ci-doctor: ignore[shell/bad-word] here\necho evil\n",
            ["lint/unused-ignore", "shell/bad-word"],
        ),
        "nothing without a reason": (
            "run.sh",
            "echo evil  # ci-doctor: ignore[shell/bad-word]\n",
            ["lint/ignore-without-reason", "shell/bad-word"],
        ),
        "and is not called unused if its rules did not see the whole file": (
            "run.sh",
            "if true\necho  # ci-doctor: ignore[shell/bad-word] who knows\n",
            ["lint/unreadable"],
        ),
        "several rules in a pipeline": (
            "p.yml",
            (
                "steps:\n# ci-doctor: ignore[shell/bad-word, pipeline/late-step] both are meant\n"
                "- command: echo late evil\n"
            ),
            [],
        ),
        "its line of a Python program, whose strings are no comments": (
            "ci/gate.py",
            (
                '"""Write\n\n    # ci-doctor: ignore[nothing]\n"""\n'
                "slow = 1  # ci-doctor: ignore[gate/slow-gate] it is\n"
            ),
            [],
        ),
    },
)
def test_what_a_comment_silences(name: str, text: str, reported: list[str], tmp_path: Path) -> None:
    assert silenced(tmp_path, text, name) == reported


def test_a_comment_with_a_mistyped_rule_names_the_near_one(tmp_path: Path) -> None:
    make_repository(tmp_path, {"x.sh": "true  # ci-doctor: ignore[shell/bad-wort] mistyped\n"})

    (violation,) = lint(tmp_path).selection.violations

    assert violation.rule.id == "lint/unknown-rule"
    assert violation.remedy == "did you mean `shell/bad-word`?"


# --- settings ---


def test_settings_leave_rules_out_everywhere_or_by_path_and_change_severities(
    tmp_path: Path,
) -> None:
    make_repository(tmp_path, {"old/run.sh": BAD, "run.sh": BAD, "p.yml": "steps: late\n"})
    settings = LintSettings(
        ignore=("pipeline/*",),
        severity={"shell/bad-word": Severity.NOTE},
        paths=(PathSettings(match=("old/**",), ignore=("shell/bad-word",)),),
    )

    (violation,) = lint(tmp_path, settings=settings).selection.violations

    assert (violation.place.file, violation.severity) == ("run.sh", Severity.NOTE)


def test_a_path_with_all_rules_left_out_is_not_even_read(tmp_path: Path) -> None:
    make_repository(tmp_path, {"old/run.sh": BAD, "run.sh": "true\n"})
    settings = LintSettings(paths=(PathSettings(match=("old/**",), ignore=("*",)),))

    ran = lint(tmp_path, settings=settings)

    assert list(ran.files) == ["run.sh"]
    assert ran.left_out == 1


# --- changed lines ---


def test_since_reports_changed_lines_of_all_that_is_not_committed_to_the_base(
    tmp_path: Path,
) -> None:
    lines = [f"line {number}" for number in range(1, 9)]
    make_repository(
        tmp_path, {"old.sh": "echo evil\n", "moved.sh": "\n".join([*lines, "evil", ""])}
    )
    git(tmp_path, "switch", "--quiet", "-c", "work")
    git(tmp_path, "mv", "moved.sh", "new name.sh")
    lines[2] = "evil too"
    commit(tmp_path, {"new name.sh": "\n".join([*lines, "evil", ""])})
    (tmp_path / "untracked.sh").write_text("echo evil\n")
    (tmp_path / "old.sh").write_text("echo evil\nevil\n")

    assert reported(lint(tmp_path, since="main")) == [
        ("shell/bad-word", "new name.sh", 3),
        ("shell/bad-word", "old.sh", 2),
        ("shell/bad-word", "untracked.sh", 1),
    ]


def test_since_reports_an_unchanged_line_whose_cause_has_changed(tmp_path: Path) -> None:
    files = {"lib.sh": "echo fine\n", "caller.sh": "source lib.sh\n", "apart.sh": "echo evil\n"}
    make_repository(tmp_path, files)
    (tmp_path / "lib.sh").write_text("echo evil\n")

    ran = lint(tmp_path, since="HEAD")

    assert reported(ran) == [("shell/bad-word", "caller.sh", 1), ("shell/bad-word", "lib.sh", 1)]
    assert "apart.sh" not in ran.files


def test_since_reports_a_contradiction_with_a_changed_line(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.sh": "VALUE=1\n", "b.sh": "VALUE=1\nevil\n"})
    (tmp_path / "a.sh").write_text("VALUE=2\n")

    assert reported(lint(tmp_path, since="HEAD")) == [("config/two-values", "b.sh", 1)]


def test_since_an_unknown_commit_is_a_usage_error(tmp_path: Path) -> None:
    make_repository(tmp_path, {"x.sh": BAD})

    with pytest.raises(UsageError, match="no commit --output=x"):
        lint(tmp_path, since="--output=x")
    assert not (tmp_path / "x").exists()


def test_since_a_history_without_a_common_commit_is_a_usage_error(tmp_path: Path) -> None:
    make_repository(tmp_path, {"x.sh": BAD})
    git(tmp_path, "switch", "--quiet", "--orphan", "other")
    commit(tmp_path, {"y.sh": BAD})

    with pytest.raises(UsageError, match="no common commit"):
        lint(tmp_path, since="main")


# --- several files ---


def test_rules_over_several_files_see_all_of_them_and_report_on_the_paths(tmp_path: Path) -> None:
    files = {"a/x.sh": "VALUE=1\n", "b/y.sh": "VALUE=2\n", "c/z.sh": "VALUE=3\n", "d/n.sh": "\n"}
    make_repository(tmp_path, files)

    assert reported(lint(tmp_path, "b")) == [("config/two-values", "b/y.sh", 1)]
    assert reported(lint(tmp_path, "d")) == []
    # A hook with single files compares nothing that it does not see.
    assert reported(lint(tmp_path, "b/y.sh")) == []


# --- baseline ---


def test_a_baseline_holds_when_lines_move_and_reports_what_is_new_or_gone(tmp_path: Path) -> None:
    make_repository(tmp_path, {"run.sh": "echo evil\n", "two.sh": "evil\nevil\n"})
    baseline = baseline_of(lint(tmp_path).selection.violations)
    (tmp_path / "run.sh").write_text("true\n\n    echo   evil\necho evil again\n")
    (tmp_path / "two.sh").write_text("evil\n")

    ran = lint(tmp_path, baseline=baseline)

    assert reported(ran) == [("shell/bad-word", "run.sh", 4)]
    assert ran.selection.known == 2
    assert [(entry.file, entry.count) for entry in ran.selection.stale] == [("two.sh", 2)]


def test_an_entry_of_a_file_that_was_not_looked_at_is_not_stale(tmp_path: Path) -> None:
    make_repository(tmp_path, {"run.sh": BAD, "other.sh": "true\n"})
    baseline = baseline_of(lint(tmp_path).selection.violations)
    (tmp_path / "run.sh").write_text("true\n")

    assert lint(tmp_path, "other.sh", baseline=baseline).selection.stale == ()
    assert lint(tmp_path, since="HEAD", baseline=baseline).selection.stale == ()
    (tmp_path / "run.sh").unlink()
    assert len(lint(tmp_path, baseline=baseline).selection.stale) == 1


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
