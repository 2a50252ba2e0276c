"""Which commit a report is about, read from real repositories."""

import gc
import os
import warnings
from pathlib import Path

import psutil
import pytest
from git import Repo

from ci_doctor.git import (
    Checkout,
    GitObjects,
    GitRun,
    checkout,
    head,
    missing_commit_hint,
    origin,
    run_git,
)
from tests.support.cli import python_program
from tests.support.git_repository import git, make_repository


def repository(directory: Path) -> Path:
    return make_repository(directory, {"file": "one"})


def fake_git(folder: Path, script: str) -> str:
    """A git of our own in a new `folder`, which is a PATH."""
    folder.mkdir()
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("orign/HEAD", "did you mean `origin/HEAD`?"),
        ("mian", "did you mean `main`?"),
        ("origin/release", "a clone may lack it: git fetch origin release:refs/remotes/origin/release"),
        ("0123abcd", "a clone may lack it: git fetch origin 0123abcd"),
    ],
)  # fmt: skip
def test_the_hint_about_a_missing_commit_can_be_followed(
    reference: str, hint: str, tmp_path: Path
) -> None:
    repository(tmp_path / "one")
    git(tmp_path, "clone", "-q", "one", "two")

    assert missing_commit_hint(tmp_path / "two", reference) == hint


def test_a_branch_without_a_commit_is_said_to_have_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")

    assert missing_commit_hint(tmp_path, "HEAD").startswith("this branch has no commit yet")


def test_commit_and_branch_are_told_from_a_folder_inside(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "inside").mkdir()

    found = checkout(tmp_path / "inside")

    commit = git(tmp_path, "rev-parse", "HEAD")
    assert found == Checkout(commit=commit, branch="main", dirty=False)


def test_no_repository_and_no_commit_are_none(tmp_path: Path) -> None:
    assert checkout(tmp_path) is None

    git(tmp_path, "init", "-q")

    assert checkout(tmp_path) is None


@pytest.mark.parametrize(
    "change",
    ["none", "changed", "staged", "removed", "untracked", "detached", "of another name", "renamed"],
)
def test_gitpython_gives_the_same(change: str, tmp_path: Path) -> None:
    # Its own reading of references, which the door does not use.
    repository(tmp_path)
    match change:
        case "changed":
            (tmp_path / "file").write_text("two")
        case "staged":
            (tmp_path / "other file").write_text("two")
            git(tmp_path, "add", ".")
        case "removed":
            (tmp_path / "file").unlink()
        case "untracked":
            (tmp_path / "other").write_text("two")
        case "detached":
            git(tmp_path, "checkout", "-q", "--detach")
        case "of another name":
            git(tmp_path, "checkout", "-q", "-b", "feature/ä-b")
        case "renamed":
            git(tmp_path, "mv", "file", "moved")
        case _:
            assert change == "none"

    found = checkout(tmp_path)

    with Repo(tmp_path) as other:
        head = other.head
        branch = None if head.is_detached else other.active_branch.name
        expected = (head.commit.hexsha, branch, other.is_dirty(submodules=False))
    assert found is not None
    assert (found.commit, found.branch, found.dirty) == expected


def test_reading_a_checkout_does_not_write_its_index(tmp_path: Path) -> None:
    repository(tmp_path)
    os.utime(tmp_path / "file", (1, 1))
    index = tmp_path / ".git" / "index"
    before = index.read_bytes()

    assert checkout(tmp_path) is not None

    assert index.read_bytes() == before


def test_a_missing_git_is_an_answer_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert run_git(tmp_path, ["status"]) == GitRun(returncode=124, stderr="there is no git on PATH")
    assert (head(tmp_path), checkout(tmp_path), origin(tmp_path)) == (None, None, None)


_ASKING_ALL = """
import os, sys
from pathlib import Path
from ci_doctor.git import GitObjects, checkout, head, origin, run_git

place = Path(sys.argv[1])
for _ in range(2):
    print(head(place), checkout(place), origin(place), run_git(place, ["status"]).returncode)
    try:
        GitObjects(place).blob("a" * 40, 10)
    except OSError:
        print("OSError")
"""


@pytest.mark.parametrize(
    ("script", "status"),
    [("#!/bin/sh\nexit 127\n", 127), ("#!/nonexistent/sh\n", 124), ("no program", 124)],
)
def test_a_git_that_does_not_work_is_an_answer_and_no_error(
    script: str, status: int, tmp_path: Path
) -> None:
    repository(tmp_path)
    path = fake_git(tmp_path / "bin", script)
    # In a process of its own: GitPython tries git when it is imported.
    ran = python_program(_ASKING_ALL, tmp_path, check=False, env={**os.environ, "PATH": path})
    assert ran.stdout.splitlines() == [f"None None None {status}", "OSError"] * 2, ran.stderr


def test_gitpythons_own_variable_changes_no_answer(tmp_path: Path) -> None:
    repository(tmp_path)
    blob = git(tmp_path, "rev-parse", "HEAD:file")
    program = (
        "import sys; from pathlib import Path; from ci_doctor.git import GitObjects, head; "
        "print(head(Path(sys.argv[1])).commit, GitObjects(Path(sys.argv[1])).blob(sys.argv[2], 10).decode())"
    )

    ran = python_program(
        program,
        tmp_path,
        blob,
        check=False,
        env={**os.environ, "GIT_PYTHON_GIT_EXECUTABLE": "/nonexistent/git"},
    )

    assert ran.stdout.split() == [git(tmp_path, "rev-parse", "HEAD"), "one"], ran.stderr


def test_gitpythons_import_starts_no_git_which_could_hang(tmp_path: Path) -> None:
    repository(tmp_path)
    asked = tmp_path / "asked"
    counting = fake_git(tmp_path / "bin", f"#!/bin/sh\necho \"$*\" >> '{asked}'\n")
    program = (
        "import os, sys; from pathlib import Path; from ci_doctor.git import run_git; "
        "before = dict(os.environ); run_git(Path(sys.argv[1]), ['status']); print(before == dict(os.environ))"
    )

    ran = python_program(
        program,
        tmp_path,
        check=False,
        env={**os.environ, "PATH": f"{counting}{os.pathsep}{os.environ['PATH']}"},
    )

    assert (ran.stdout, asked.read_text()) == ("True\n", "status\n"), ran.stderr


def test_a_folder_that_nobody_may_enter_has_no_checkout(tmp_path: Path) -> None:
    inside = tmp_path / "closed/inside"
    inside.mkdir(parents=True)
    program = (
        "import os, sys; from pathlib import Path; from ci_doctor.git import checkout, head, origin; "
        "os.geteuid() or os.setuid(65534); place = Path(sys.argv[1]); "
        "print(head(place), checkout(place), origin(place))"
    )
    inside.parent.chmod(0o000)
    try:
        ran = python_program(program, inside, check=False)
    finally:
        inside.parent.chmod(0o700)

    assert ran.stdout == "None None None\n", ran.stderr


def test_a_directory_that_is_gone_is_never_replaced_by_our_own(tmp_path: Path) -> None:
    ran = run_git(tmp_path / "gone", ["rev-parse", "--show-toplevel"])

    assert ran.returncode == 124
    assert "gone" in ran.stderr


def test_what_git_started_ends_with_it_when_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No ps and no pgrep are on PATH, as in a slim image. The child holds the pipe of its parent.
    fake = (
        f'#!/bin/sh\n[ "$1" = version ] && echo git version 2.40.0 && exit\n'
        f"/bin/sleep 600 & echo $! >{tmp_path}/child; wait\n"
    )
    monkeypatch.setenv("PATH", fake_git(tmp_path / "programs", fake))

    ran = run_git(tmp_path, ["fetch"], timeout_s=2)

    assert (ran.returncode, ran.stderr) == (124, "no answer within 2 s")
    child = int((tmp_path / "child").read_text())
    left = psutil.Process(child) if psutil.pid_exists(child) else None
    assert left is None or psutil.wait_procs([left], timeout=60)[0]


def test_a_hook_of_another_repository_changes_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        repository(tmp_path / name)
    (tmp_path / "one" / "file").write_text("content of one")
    git(tmp_path / "one", "commit", "-qam", "two")
    commit, blob = git(tmp_path / "one", "rev-parse", "HEAD", "HEAD:file").split()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / ".git" / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "other" / ".git" / "objects"))

    seen_checkout = checkout(tmp_path / "one")

    assert seen_checkout == Checkout(commit=commit, branch="main", dirty=False)
    assert GitObjects(tmp_path / "one").blob(blob, 100) == b"content of one"


def test_blobs_come_from_one_process_and_what_is_no_blob_is_an_error(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 40)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "two")
    one, binary, tree = git(
        tmp_path, "rev-parse", "HEAD:file", "HEAD:binary", "HEAD^{tree}"
    ).split()
    objects = GitObjects(tmp_path)

    assert objects.blob(one, 10) == b"one"
    readers = set(psutil.Process().children())
    assert objects.blob(binary, 1 << 20) == bytes(range(256)) * 40
    with pytest.raises(OSError, match="10240 bytes"):
        objects.blob(binary, 10_000)
    with pytest.raises(OSError, match="tree"):
        objects.blob(tree, 10_000)
    assert set(psutil.Process().children()) <= readers
    with pytest.raises(OSError, match="git cannot read"):
        objects.blob("0" * 40, 10)
    assert objects.blob(one, 10) == b"one"


def test_a_refused_repository_has_no_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(tmp_path)
    # What git's own tests set for a repository of another user.
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)

    assert (head(tmp_path), checkout(tmp_path)) == (None, None)


def test_without_a_checkout_gitpython_is_not_loaded(tmp_path: Path) -> None:
    program = (
        "import sys; from ci_doctor.cli import main; status = main(sys.argv[1:]); "
        "sys.exit(99 if 'git' in sys.modules else status)"
    )
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith("BUILDKITE")
    }

    ran = python_program(program, "setup-env", "--json", check=False, env=environ, cwd=tmp_path)

    assert (ran.returncode, ran.stdout[:1]) == (0, "{"), ran.stderr


def test_readers_of_objects_end_with_their_owner_even_in_a_cycle(tmp_path: Path) -> None:
    repository(tmp_path)
    name = git(tmp_path, "rev-parse", "HEAD:file")
    of_other_tests = set(psutil.Process().children())
    objects = GitObjects(tmp_path)
    objects.blob(name, 10)
    readers = [each for each in psutil.Process().children() if each not in of_other_tests]
    cycle: list[object] = [objects]
    cycle.append(cycle)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        del objects, cycle
        gc.collect()

    assert len(readers) == 2
    assert psutil.wait_procs(readers, timeout=60)[1] == []
    assert [str(each.message) for each in warned] == []
