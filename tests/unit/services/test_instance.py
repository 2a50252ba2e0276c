# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.model.service import FailureKind, ServiceFailure
from ci_doctor.model.verdict import Verdict
from ci_doctor.services.instance import RunningService
from ci_doctor.services.probes.ready import parse_ready


@pytest.mark.parametrize(
    ("ready", "address"),
    [
        ("/health", "http://127.0.0.1:8000"),
        ("https://127.0.0.1:8000/health", "https://127.0.0.1:8000"),
        ("tcp://127.0.0.1:8000", "tcp://127.0.0.1:8000"),
        ("tcp://[::1]:8000", "tcp://[::1]:8000"),
        ("log:ready", None),
    ],
)
def test_a_service_is_shown_by_the_address_at_which_it_was_probed(
    ready: str, address: str | None
) -> None:
    service = RunningService(
        name="kv",
        pid=1,
        started=1,
        start=1,
        probe=parse_ready(ready, 8000, directory=Path()),
        port=8000,
        log=Path("log"),
        command=("redis-server",),
    )
    assert service.address == address


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
