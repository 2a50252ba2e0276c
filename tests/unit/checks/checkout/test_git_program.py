"""git itself."""

from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.checkout.git_program import CHECK, judge_version
from tests.support.checks import check_context


def test_a_version_of_today_is_ok() -> None:
    assert judge_version("git version 2.39.5 (Apple Git-154)").status is CheckStatus.OK


def test_an_old_one_is_a_warning() -> None:
    assert judge_version("git version 1.8.3.1").status is CheckStatus.WARNING


def test_no_number_is_unknown() -> None:
    with pytest.raises(UndeterminedError):
        judge_version("")


def test_no_git_is_a_warning(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path, environ={"PATH": str(tmp_path)}))

    assert [each.finding.rule for each in result.problems] == ["doctor/git-missing"]
