"""Tags that break the project's version."""

from pathlib import Path

from ci_doctor.checks.check import CheckStatus, Fault
from ci_doctor.checks.checkout.version_tags import CHECK
from ci_doctor.model.evaluation import EVALUATION
from tests.support.checks import check_context
from tests.support.git_repository import commit, git, make_repository
from tests.unit.checks.checkout.test_history import PROJECT


def tagged(top: Path, tag: str) -> Path:
    make_repository(top, {"pyproject.toml": PROJECT})
    git(top, "tag", "v0.4.3")
    commit(top, {"more": "x\n"})
    git(top, "tag", tag)
    return top


def test_a_nightly_tag_is_a_warning_that_no_other_agent_cures(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tagged(tmp_path, "nightly-cu13")))

    (found,) = result.problems
    assert (result.status, found.fault) == (CheckStatus.WARNING, Fault.REPOSITORY)
    assert "nightly-cu13" in found.finding.summary
    assert found.finding.remedy == EVALUATION


def test_a_date_that_is_read_as_a_version_is_a_warning(tmp_path: Path) -> None:
    (found,) = CHECK.run(check_context(tagged(tmp_path, "nightly-2026-04-22"))).problems

    assert "would read 'nightly-2026-04-22' as one" in found.finding.summary


def test_a_release_is_ok(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tagged(tmp_path, "v0.4.4")))

    assert (result.status, result.summary) == (
        CheckStatus.OK,
        "setuptools-scm computes 0.4.4 for serving",
    )


def test_a_pinned_version_is_ok(tmp_path: Path) -> None:
    top = tagged(tmp_path, "nightly-cu13")
    environ = {
        **check_context(top).environ,
        "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_SERVING": "0.4.4",
    }

    assert CHECK.run(check_context(top, environ=environ)).problems == ()


def test_a_project_in_a_folder_above_counts(tmp_path: Path) -> None:
    top = tagged(tmp_path, "nightly-cu13")
    (top / "tests").mkdir()

    assert CHECK.run(check_context(top / "tests")).status is CheckStatus.WARNING


def test_a_checkout_without_a_project_is_ok(tmp_path: Path) -> None:
    make_repository(tmp_path)

    assert CHECK.run(check_context(tmp_path)).summary == "no Python project here"
