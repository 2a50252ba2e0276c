# SPDX-License-Identifier: Apache-2.0
"""Where others can install this ci-doctor from."""

from pathlib import Path
from typing import Any

import pytest

from ci_doctor.machine.packages import Origin
from ci_doctor.scaffold.origin import origin_of, portable_address, tool_origin
from tests.support.git_repository import git, make_repository

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WHEEL = "https://h.org/w/ci_doctor_toolkit-1.2-py3-none-any.whl"


def vcs(url: str, commit: str = COMMIT, **more: Any) -> dict[str, Any]:
    return {"url": url, "vcs_info": {"vcs": "git", "commit_id": commit}, **more}


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://h.org/a/b.git", "https://h.org/a/b.git"),
        ("https://token@h.org/a/b", "https://h.org/a/b"),
        ("https://${USER}:${PASS}@h.org:8443/a", "https://h.org:8443/a"),
        ("ssh://git@h.org/a/b.git", "ssh://git@h.org/a/b.git"),
        ("git@h.org:a/b.git", "ssh://git@h.org/a/b.git"),
        ("http://[::1]:80/a", "http://[::1]:80/a"),
        ("/srv/ci-doctor.git", None),
        ("file:///srv/ci-doctor.git", None),
        ("../ci-doctor", None),
        ("https://h.org/a b", None),
        ('https://h.org/"; rm', None),
        ("https://[h/a", None),
        ("", None),
    ],
)
def test_an_address_has_no_credentials_and_no_path_of_this_machine(
    url: str, address: str | None
) -> None:
    assert portable_address(url) == address


@pytest.mark.parametrize(
    ("values", "requirement", "plugin"),
    [
        (
            vcs("https://h.org/a/b.git"),
            f"git+https://h.org/a/b.git@{COMMIT}",
            f"https://h.org/a/b.git/buildkite_plugins/ci-doctor#{COMMIT}",
        ),
        (
            vcs("https://h.org/a/b", subdirectory="c/d"),
            f"git+https://h.org/a/b@{COMMIT}#subdirectory=c/d",
            f"https://h.org/a/b.git/c/d/buildkite_plugins/ci-doctor#{COMMIT}",
        ),
        (
            vcs("https://github.com/a/b"),
            f"git+https://github.com/a/b@{COMMIT}",
            f"https://github.com/a/b/buildkite_plugins/ci-doctor#{COMMIT}",
        ),
        ({"url": WHEEL, "archive_info": {"hashes": {"sha256": "a" * 64}}}, f"{WHEEL}#sha256={'a' * 64}", None),
        ({"url": WHEEL, "archive_info": {"hash": f"sha256={'a' * 64}"}}, f"{WHEEL}#sha256={'a' * 64}", None),
    ],
)  # fmt: skip
def test_what_was_installed_is_what_others_install(
    values: dict[str, Any], requirement: str, plugin: str | None
) -> None:
    made = origin_of(Origin(values))
    assert (made.requirement, made.plugin, made.missing) == (requirement, plugin, "")


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        (vcs("https://h.org/a/b.git", commit="main"), "no commit that a file can hold"),
        ({"url": "https://h.org/a"}, "no commit is noted"),
        ({"url": WHEEL, "archive_info": {}}, "no wheel with its sha256"),
        ({"url": "https://h.org/ci.tar.gz", "archive_info": {"hash": f"sha256={'a' * 64}"}}, "no wheel"),
        ({"url": "file:///w/ci_doctor_toolkit-1.whl", "archive_info": {}}, "/w/ci_doctor_toolkit-1.whl, a file of this machine"),
        ({"url": "file:///not/here", "dir_info": {"editable": True}}, "was installed from /not/here, and no remote"),
        ({"url": "https://u:secret12@h.org/a b"}, "an address that a file cannot hold"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(values: dict[str, Any], missing: str) -> None:
    made = origin_of(Origin(values))
    assert (made.requirement, made.plugin) == (None, None)
    assert missing in made.missing


def test_a_clone_is_known_by_the_remote_that_has_its_commit(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    make_repository(clone, {"pyproject.toml": "", "tool/pyproject.toml": "", "ci_doctor/a.py": ""})
    commit = git(clone, "rev-parse", "HEAD").strip()
    place = {"url": clone.as_uri(), "dir_info": {"editable": True}}
    assert "no remote of that clone has an address" in origin_of(Origin(place)).missing
    git(clone, "remote", "add", "local", str(tmp_path / "elsewhere"))
    git(clone, "remote", "add", "fork", "git@h.org:me/ci-doctor.git")
    assert f"known to have its commit {commit[:12]}" in origin_of(Origin(place)).missing
    for name in ("fork", "local"):
        git(clone, "update-ref", f"refs/remotes/{name}/main", "HEAD")
    expected = f"git+ssh://git@h.org/me/ci-doctor.git@{commit}"
    assert origin_of(Origin(place)).requirement == expected
    (clone / "ci_doctor" / "a.py").write_text("changed = True\n")
    assert "changes that no commit has" in origin_of(Origin(place)).missing
    # Of a repository on this machine that itself came from elsewhere, and of a folder in one.
    assert origin_of(Origin(vcs(clone.as_uri(), commit))).requirement == expected
    below = origin_of(Origin({**place, "url": (clone / "tool").as_uri()}))
    assert below.requirement == f"{expected}#subdirectory=tool"


def test_this_installation_can_be_started_by_what_is_written() -> None:
    program = tool_origin().program
    assert Path(program[0]).is_absolute()
