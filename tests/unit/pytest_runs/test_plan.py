# SPDX-License-Identifier: Apache-2.0
"""The command line and the environment of a run of pytest, also at the base of a change."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.pytest_runs.attempt import PytestSession, RunKind
from ci_doctor.pytest_runs.plan import (
    FOLDER,
    PLUGIN,
    PytestPlan,
    find_interpreter,
    rerun_args,
    with_options,
)
from ci_doctor.pytest_runs.records import StuckCollection
from ci_doctor.pytest_runs.reruns import (
    BaseCheckout,
    BaseCommit,
    base_checkout,
    base_commit,
    base_problem,
)
from tests.support.git_repository import commit, git, make_repository
from tests.support.pytest_sessions import a_plan


def plan(kind: RunKind = RunKind.SUITE, **environ: str) -> PytestPlan:
    return a_plan(kind=kind, args=("-n4", "tests"), environ=environ, hash_seed=5)


def test_the_recorder_comes_in_by_pythonpath_and_an_option() -> None:
    environment = plan(PYTHONPATH="/own:").environment("/record", "/plan")

    assert environment["PYTHONPATH"] == f"{FOLDER}:/own:"
    assert plan().command == ("/py", "-m", "pytest", "-p", PLUGIN, "-n4", "tests")
    assert [file.name for file in FOLDER.glob("*.py")].count(f"{PLUGIN}.py") == 1


def test_a_hash_seed_of_the_user_stays() -> None:
    plans = (plan(), plan(PYTHONHASHSEED="0"))

    seeds = [each.environment("r", "p")["PYTHONHASHSEED"] for each in plans]

    assert seeds == ["5", "0"]


def test_only_reruns_change_the_options_of_pytest() -> None:
    assert json.loads(plan(RunKind.ALONE).wishes("c", "s"))["is_rerun"]
    assert not json.loads(plan(RunKind.SUITE).wishes("c", "s"))["is_rerun"]


def test_a_rerun_has_one_process_and_leaves_the_coverage_alone() -> None:
    args = rerun_args(("-n4", "--", "-odd.py"), ("pytest-xdist", "pytest_cov"))
    assert args == ("-n4", "-n0", "--no-cov", "--", "-odd.py")
    assert with_options(("a",), "-q") == ("a", "-q")


def install(folder: Path, metadata: str, version: str) -> None:
    """Put a package pytest in `folder`, with a folder of metadata of that name."""
    (folder / "pytest").mkdir(parents=True)
    (folder / "pytest" / "__init__.py").write_text("raise ImportError('not for a question')\n")
    (folder / metadata).mkdir()
    name = "METADATA" if metadata.endswith(".dist-info") else "PKG-INFO"
    (folder / metadata / name).write_text(
        f"Metadata-Version: 2.1\nName: pytest\nVersion: {version}\n"
    )


def find(folder: Path) -> Path:
    """Our own interpreter, with `folder` before its packages."""
    return find_interpreter(sys.executable, {**os.environ, "PYTHONPATH": str(folder)}, folder)


@pytest.mark.parametrize("metadata", ["pytest-7.4.4.dist-info", "pytest.egg-info"])
def test_a_pytest_of_version_7_is_taken(tmp_path: Path, metadata: str) -> None:
    install(tmp_path, metadata, "7.4.4")
    assert find(tmp_path) == Path(sys.executable)


@pytest.mark.parametrize("metadata", ["pytest-6.2.5.dist-info", "pytest-6.2.5-py3.8.egg-info"])
def test_a_pytest_before_7_is_refused(tmp_path: Path, metadata: str) -> None:
    install(tmp_path, metadata, "6.2.5")
    with pytest.raises(UsageError, match=r"has pytest 6\.2\.5; ci-doctor needs 7 or later"):
        find(tmp_path)


def test_a_plugin_of_pytest_is_not_taken_for_pytest(tmp_path: Path) -> None:
    (tmp_path / "pytest_6-6.0.dist-info").mkdir()
    (tmp_path / "pytest_cov-4.0.dist-info").mkdir()
    assert find(tmp_path) == Path(sys.executable)


def test_what_a_start_prints_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello')\n")
    assert find(tmp_path) == Path(sys.executable)


def test_an_interpreter_without_pytest_is_refused(tmp_path: Path) -> None:
    # Its own packages are left out: a venv of nothing.
    home = Path(sys.base_prefix) / "bin"
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    python = tmp_path / "bin" / "python"
    python.symlink_to(Path(sys.executable).resolve())
    with pytest.raises(UsageError, match="has no pytest"):
        find_interpreter(str(python), {"PATH": os.environ["PATH"]}, tmp_path)


def test_a_program_that_is_no_python_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'I am a shell'\n")
    program.chmod(0o755)
    with pytest.raises(UsageError, match="is no interpreter for the tests: I am a shell"):
        find_interpreter(str(program), os.environ, tmp_path)


def test_what_lies_in_the_checkout_is_taken_from_the_base() -> None:
    checkout = BaseCheckout(base=BaseCommit(commit="c", top=Path("/top")), root=Path("/base"))
    plan = PytestPlan(
        kind=RunKind.ALONE,
        python=Path("/top/.venv/bin/python"),
        args=("/top/tests", "--rootdir=/top", "--x=/topmost", "-k", "a"),
        environ={"PYTHONPATH": "/top/lib:/other", "HOME": "/h"},
        directory=Path("/top/sub"),
    )
    path = ("/top/src", "/top/.venv/lib/python3.11/site-packages", "/usr/lib")

    there = checkout.plan(plan, path)

    assert there.args == ("/base/tests", "--rootdir=/base", "--x=/topmost", "-k", "a")
    assert there.environ == {"PYTHONPATH": "/base/src:/base/lib:/other", "HOME": "/h"}
    # The environment stays.
    assert (there.directory, there.python) == (Path("/base/sub"), plan.python)


def test_the_base_is_where_the_change_left_the_other_branch(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    fork = git(top, "rev-parse", "HEAD")
    git(top, "checkout", "-qb", "change")
    commit(top, {"a": "2"})
    git(top, "checkout", "-q", "main")
    commit(top, {"b": "1"})
    git(top, "checkout", "-q", "change")

    base = base_commit(top, "main")
    with base_checkout(base, tmp_path) as checkout:
        assert (checkout.root / "a").read_text() == "1"

    assert base.commit == fork
    assert not checkout.root.exists()
    assert git(top, "worktree", "list").count("\n") == 0


@pytest.mark.parametrize("is_repository", [True, False])
def test_a_base_that_is_none_is_a_usage_error(tmp_path: Path, is_repository: bool) -> None:
    if is_repository:
        make_repository(tmp_path)

    with pytest.raises(UsageError, match="--baseline nothing"):
        base_commit(tmp_path, "nothing")


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        ({"collected": ("a",), "loaded": ("/top/x.py",)}, "/top/x.py"),
        ({"collect_errors": {"a.py": "x"}}, "a.py"),
        ({"exit_code": 3}, "exit code 3"),
        ({"stuck": StuckCollection(name="b.py", limit_s=60.0)}, "b.py was being collected"),
    ],
)
def test_a_base_that_shows_nothing_says_why(shown: dict[str, Any], word: str) -> None:
    assert word in (base_problem(PytestSession(kind=RunKind.BASELINE, **shown)) or "")
