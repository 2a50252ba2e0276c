"""History of the clone, and the version that depends on it."""

from pathlib import Path

from ci_doctor.checks.checkout.history import CHECK
from tests.support.checks import check_context
from tests.support.git_repository import commit, git, make_repository

PROJECT = """[build-system]
requires = ["setuptools>=77", "setuptools-scm>=8"]
build-backend = "setuptools.build_meta"
[project]
name = "serving"
dynamic = ["version"]
[tool.setuptools_scm]
"""


def shallow(tmp_path: Path, files: dict[str, str]) -> Path:
    origin = make_repository(tmp_path / "origin", files)
    git(origin, "tag", "v1.0.0")
    commit(origin, {"more": "x\n"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{origin}", "clone")
    return tmp_path / "clone"


def test_a_whole_clone_is_ok(tmp_path: Path) -> None:
    make_repository(tmp_path)

    assert CHECK.run(check_context(tmp_path)).problems == ()


def test_a_shallow_clone_is_a_note(tmp_path: Path) -> None:
    (found,) = CHECK.run(check_context(shallow(tmp_path, {"a": "x\n"}))).problems

    assert (found.finding.rule, found.finding.severity) == ("doctor/shallow-clone", "note")
    assert found.finding.remedy == "git fetch --unshallow --tags"


def test_a_shallow_clone_is_a_warning_if_a_version_comes_from_its_tags(tmp_path: Path) -> None:
    top = shallow(tmp_path, {"pyproject.toml": PROJECT})

    (found,) = CHECK.run(check_context(top)).problems

    assert found.finding.severity == "warning"
    assert "setuptools-scm computes 0.1." in found.finding.summary


def test_a_pinned_version_does_not_depend_on_the_history(tmp_path: Path) -> None:
    top = shallow(tmp_path, {"pyproject.toml": PROJECT})
    context = check_context(top)
    environ = {**context.environ, "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_SERVING": "1.0.1"}

    (found,) = CHECK.run(check_context(top, environ=environ)).problems

    assert found.finding.severity == "note"
