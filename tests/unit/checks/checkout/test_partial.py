"""Sparse checkouts and partial clones."""

from pathlib import Path

from ci_doctor.checks.checkout.partial import CHECK
from tests.support.checks import check_context
from tests.support.git_repository import git, make_repository


def test_a_partial_clone_with_a_sparse_checkout_is_two_notes(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin", {"a/x": "x\n", "b/x": "x\n"})
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", "--sparse", f"file://{origin}", "clone")

    result = CHECK.run(check_context(tmp_path / "clone"))

    assert [each.finding.severity for each in result.problems] == ["note", "note"]
    assert result.summary.startswith("a sparse checkout: ")


def test_a_usual_clone_is_ok(tmp_path: Path) -> None:
    make_repository(tmp_path)

    assert CHECK.run(check_context(tmp_path)).problems == ()
