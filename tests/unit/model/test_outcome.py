# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import concluded
from ci_doctor.model.verdict import Verdict


def finding(severity: Severity) -> Finding:
    return Finding(rule="service/died", severity=severity, summary="x")


@pytest.mark.parametrize("verdict", [*Verdict, None])
def test_a_pass_beside_an_error_has_failed_and_any_other_verdict_stays(
    verdict: Verdict | None,
) -> None:
    passes = verdict in {Verdict.PASS, Verdict.FLAKY}
    with_error = concluded(verdict, (finding(Severity.NOTE), finding(Severity.ERROR)))
    assert with_error is (Verdict.FAILED if passes else verdict)
    assert concluded(verdict, (finding(Severity.WARNING),)) is verdict
