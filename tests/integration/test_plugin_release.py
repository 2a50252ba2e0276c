"""release/plugin.py: the Buildkite plugin as a repository of its own."""

import os
import shutil
from pathlib import Path

import pytest
import yaml

from release.plugin import PREFIX, PluginError, release
from tests.support.git_repository import commit, git

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the plugin, whose history has commits of other things too."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "a")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.org")
    folder = tmp_path / "repository"
    shutil.copytree(ROOT / PREFIX, folder / PREFIX)
    shutil.copy(ROOT / "LICENSE", folder)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, {"other": "1"})
    commit(folder, {"other": "2"})
    return folder


def test_a_clone_of_it_is_a_plugin_at_the_root(repository: Path, tmp_path: Path) -> None:
    release(repository, "v1.2.3", tmp_path / "plugin")

    git(tmp_path, "clone", "--quiet", "--branch", "v1.2.3", "plugin", "agent")
    agent = tmp_path / "agent"
    assert yaml.safe_load((agent / "plugin.yml").read_text())["name"] == "ci-doctor"
    for hook in (ROOT / PREFIX / "hooks").iterdir():
        assert os.access(agent / "hooks" / hook.name, os.X_OK), hook.name
    ours = {str(path.relative_to(ROOT / PREFIX)) for path in (ROOT / PREFIX).rglob("*.*")}
    theirs = set(git(agent, "ls-files").splitlines())
    assert {name for name in ours if "__pycache__" not in name} <= theirs
    assert "LICENSE" in theirs
    # The commits of other things are left out.
    assert git(agent, "log", "--format=%s").splitlines() == ["Release v1.2.3", "x"]
    # Its page links to the rest of this repository by address.
    page = (agent / "README.md").read_text()
    assert "](../" not in page
    assert "/blob/v1.2.3/docs/exit-codes.md)" in page
    assert "](#caches)" in page


def test_the_next_release_is_a_fast_forward(repository: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    first = release(repository, "v1.2.3", plugin)
    commit(repository, {f"{PREFIX}/hooks/pre-exit": "#!/bin/bash\n"})

    second = release(repository, "v1.3.0", plugin)

    git(plugin, "merge-base", "--is-ancestor", first, second)
    assert (plugin / "hooks" / "pre-exit").read_text() == "#!/bin/bash\n"
    assert git(plugin, "tag").splitlines() == ["v1.2.3", "v1.3.0"]
    assert git(plugin, "status", "--porcelain") == ""


def test_a_release_that_is_there_or_a_change_that_nobody_committed_is_refused(
    repository: Path, tmp_path: Path
) -> None:
    release(repository, "v1.2.3", tmp_path / "plugin")
    with pytest.raises(PluginError, match="already"):
        release(repository, "v1.2.3", tmp_path / "plugin")
    with pytest.raises(PluginError, match="latest is no tag of a release"):
        release(repository, "latest", tmp_path / "plugin")

    (repository / PREFIX / "plugin.yml").write_text("")
    with pytest.raises(PluginError, match="changes that are not committed"):
        release(repository, "v1.2.4", tmp_path / "plugin")


def everything(folder: Path) -> dict[str, str]:
    """The refs, the branch, and each file with its text."""
    files = {str(each): each.read_text() for each in folder.glob("*") if each.is_file()}
    return {**files, "refs": git(folder, "show-ref"), "HEAD": git(folder, "symbolic-ref", "HEAD")}


@pytest.mark.parametrize("state", ["branch", "edit", "file"])
@pytest.mark.gate(1)
def test_work_in_the_target_is_refused_and_stays(
    repository: Path, tmp_path: Path, state: str
) -> None:
    plugin = tmp_path / "plugin"
    release(repository, "v1.2.3", plugin)
    if state == "branch":
        git(plugin, "checkout", "--quiet", "-b", "feature")
        commit(plugin, {"mine": "1"})
    (plugin / {"branch": "mine", "edit": "README.md", "file": "new"}[state]).write_text("mine")
    if state == "branch":
        git(plugin, "commit", "--quiet", "--all", "--message", "mine")
    before = everything(plugin)

    with pytest.raises(PluginError, match=r"not on its branch main|has changes"):
        release(repository, "v1.3.0", plugin)

    assert everything(plugin) == before


def test_a_folder_with_files_and_a_file_are_no_targets(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "README.md").write_text("mine")
    for target in (folder, folder / "README.md"):
        with pytest.raises(PluginError, match="is no repository"):
            release(repository, "v1.2.3", target)
    assert [each.read_text() for each in folder.iterdir()] == ["mine"]


def test_the_repository_itself_and_a_work_tree_of_it_are_no_targets(
    repository: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    git(repository, "checkout", "--quiet", "-b", "work")
    git(repository, "worktree", "add", "--quiet", str(other), "main")
    before = git(repository, "show-ref")
    for target in (repository, other, repository / PREFIX):
        with pytest.raises(PluginError, match=r"is the repository of ci-doctor itself|is no repo"):
            release(repository, "v1.2.3", target)
    assert git(repository, "show-ref") == before
