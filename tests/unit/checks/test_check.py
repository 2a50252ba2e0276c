# SPDX-License-Identifier: Apache-2.0
"""What a check says: a generator of problems, and its summary."""

from pathlib import Path

import pytest

from ci_doctor.checks.check import (
    CheckResult,
    CheckStatus,
    Findings,
    UndeterminedError,
    check,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.model.finding import Rule, Severity
from tests.support.checks import check_context

LITTER = Rule(id="doctor/litter", severity=Severity.WARNING, meaning="There is litter.")


@check("test/litter", title="litter")
def litter(_context: CheckContext) -> Findings:
    yield problem(LITTER, "paper")
    yield problem(LITTER, "glass")
    return CheckResult(summary="two things lie here", unknown="the cellar is locked")


def test_what_a_check_yields_are_its_problems(tmp_path: Path) -> None:
    result = litter.run(check_context(tmp_path))

    assert [each.finding.summary for each in result.problems] == ["paper", "glass"]
    assert (result.summary, result.unknown) == ("two things lie here", "the cellar is locked")


@pytest.mark.parametrize(
    "error", [UndeterminedError("the light is out"), OSError("the light is out")]
)
@pytest.mark.parametrize("found", [True, False])
def test_what_was_found_stands_although_the_rest_is_unknown(
    found: bool, error: Exception, tmp_path: Path
) -> None:
    @check("test/cellar", title="cellar")
    def cellar(_context: CheckContext) -> Findings:
        if found:
            yield problem(LITTER, "coal")
        raise error

    context = check_context(tmp_path)
    if not found:
        with pytest.raises(type(error)):
            cellar.run(context)
        return
    result = cellar.run(context)
    assert (result.unknown, result.status) == ("the light is out", CheckStatus.UNKNOWN)
    assert len(result.problems) == 1
