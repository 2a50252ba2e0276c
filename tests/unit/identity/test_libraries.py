# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.identity.libraries import commit_of, libraries
from tests.support.git_repository import git, make_repository
from tests.support.packages import dist_info


def repository(path: Path) -> str:
    return git(make_repository(path), "rev-parse", "HEAD")


def test_versions_are_read_of_what_matters_only(tmp_path: Path) -> None:
    for name, version in (
        ("torch", "2.9.0"),
        ("nvidia-cublas-cu12", "12.4.5.8"),
        ("requests", "2"),
        ("nvidia-ml-py", "12"),
    ):
        dist_info(tmp_path, name, version)

    assert dict(libraries([tmp_path]).facts) == {"nvidia-cublas-cu12": "12.4.5.8", "torch": "2.9.0"}


def test_two_of_one_name_are_both_told(tmp_path: Path) -> None:
    dist_info(tmp_path / "a", "torch", "2.9.0")
    dist_info(tmp_path / "b", "torch", "2.8.0")

    assert (
        libraries([tmp_path / "a", tmp_path / "b", tmp_path / "no"]).facts["torch"]
        == "2.9.0 and 2.8.0"
    )


def test_builds_of_one_development_version_are_told_apart_wherever_they_lie(tmp_path: Path) -> None:
    lines = "vllm/a.py,sha256=aa,1\nvllm/b.py,sha256=bb,1\n"
    dist_info(
        tmp_path / "a", "vllm", "0.9.2.dev3+g12", record=f"{lines}../../bin/vllm,sha256=11,1\n"
    )
    dist_info(
        tmp_path / "b",
        "vllm",
        "0.9.2.dev3+g12",
        record=f"../../bin/vllm,sha256=22,1\n{lines}vllm/__pycache__/a.pyc,,\n",
    )
    dist_info(tmp_path / "c", "vllm", "0.9.2.dev3+g12", record=lines.replace("bb", "cc"))

    first, second, third = (libraries([tmp_path / name]).facts["vllm"] for name in "abc")

    assert first.startswith("0.9.2.dev3+g12, files ")
    assert first == second != third


def test_an_editable_installation_is_told_with_its_commit(tmp_path: Path) -> None:
    commit = repository(tmp_path / "my src")
    origin = {"url": (tmp_path / "my src").as_uri(), "dir_info": {"editable": True}}
    dist_info(tmp_path / "site", "lmcache", "0.3.9", origin=origin)

    found = libraries([tmp_path / "site"])

    assert found.facts["lmcache"] == f"0.3.9, editable, commit {commit[:12]}"
    assert set(found.unknown) == {"lmcache (uncommitted changes)"}


def test_an_installation_from_a_repository_is_told_with_its_commit(tmp_path: Path) -> None:
    dist_info(
        tmp_path,
        "sglang",
        "0.5",
        origin={"url": "https://x/y", "vcs_info": {"vcs": "git", "commit_id": "c" * 40}},
    )

    assert libraries([tmp_path]).facts["sglang"] == f"0.5, commit {'c' * 12}"


def test_damaged_metadata_is_no_error(tmp_path: Path) -> None:
    folder = dist_info(tmp_path, "torch", "2.9.0", origin=["not", "an", "object"])
    (folder / "METADATA").write_bytes(b"\xff\xfe")

    assert libraries([tmp_path]).facts["torch"] == "2.9.0"


def test_a_commit_is_found_in_packed_references_and_worktrees_and_when_detached(
    tmp_path: Path,
) -> None:
    source = tmp_path / "r"
    commit = repository(source)
    git(source, "worktree", "add", "-q", "-b", "w", str(tmp_path / "w"))
    git(source, "pack-refs", "--all")
    (source / "below").mkdir()

    assert commit_of(source / "below") == commit
    assert commit_of(tmp_path / "w") == commit
    git(source, "checkout", "-q", "--detach")
    assert commit_of(source) == commit
