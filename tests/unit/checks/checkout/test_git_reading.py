"""What git tells of a checkout."""

from pathlib import Path

from ci_doctor.checks.checkout.git_reading import read_git_config, read_place
from tests.support.checks import check_context
from tests.support.git_repository import git, make_repository


def test_the_place_is_that_of_the_working_directory_whatever_the_variables(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "top", {"a/b": "x\n"})
    other = make_repository(tmp_path / "other")
    context = check_context(top / "a")
    environ = {**context.environ, "GIT_DIR": str(other / ".git")}

    place = read_place(check_context(top / "a", environ=environ))

    assert (place.top, place.git_dir, place.is_shallow) == (top, top / ".git", False)
    assert place.common_dir.resolve() == top / ".git"


def test_a_linked_work_tree_shares_its_repository(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "top")
    git(top, "worktree", "add", "--quiet", "../linked")

    place = read_place(check_context(tmp_path / "linked"))

    assert place.git_dir == top / ".git" / "worktrees" / "linked"
    assert place.common_dir == top / ".git"


def test_the_configuration_has_names_in_lower_case(tmp_path: Path) -> None:
    make_repository(tmp_path)
    git(tmp_path, "config", "core.someThing", "a\nb")

    assert read_git_config(check_context(tmp_path))["core.something"] == "a\nb"
