# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import concluded
from ci_doctor.model.verdict import Verdict


def finding(severity: Severity, summary: str = "x") -> Finding:
    return Finding(rule="service/died", severity=severity, summary=summary)


@pytest.mark.parametrize("verdict", [*Verdict, None])
def test_a_pass_beside_an_error_has_failed_and_any_other_verdict_stays(
    verdict: Verdict | None,
) -> None:
    errors = (finding(Severity.NOTE), finding(Severity.ERROR, "a leak"))
    if verdict in {Verdict.PASS, Verdict.FLAKY}:
        assert concluded(verdict, "all is well", errors) == (
            Verdict.FAILED,
            "all is well; but a leak",
        )
    else:
        assert concluded(verdict, "so it is", errors) == (verdict, "so it is")
    assert concluded(verdict, "so it is", (finding(Severity.WARNING),)) == (verdict, "so it is")
