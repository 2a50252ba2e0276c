# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.model.service import FailureKind, ServiceFailure
from ci_doctor.model.verdict import Verdict


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (FailureKind.DIED, Verdict.FAILED),
        (FailureKind.NOT_READY, Verdict.FAILED),
        (FailureKind.OUTSIDE, Verdict.INFRA),
    ],
)
def test_only_a_cause_outside_the_change_is_infra(kind: FailureKind, verdict: Verdict) -> None:
    assert ServiceFailure(kind=kind, service="v", message="m", duration_s=1.0).verdict is verdict
