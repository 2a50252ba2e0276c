# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.model.facts.launch import FailureKind, ServiceFailure
from ci_doctor.model.outcome import Verdict
from ci_doctor.services.instance import EventKind, RunningService, ServiceEvent, Starts
from ci_doctor.services.ready import parse_ready


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


def test_each_start_of_a_service_is_told_apart() -> None:
    starts = Starts()
    for start in (1, 2):
        event = ServiceEvent(
            kind=EventKind.STARTED,
            service="worker",
            at=float(start),
            start=start,
            pid=start,
            log="x",
        )
        starts.add(event)
    starts.add(
        ServiceEvent(kind=EventKind.READY, service="worker", at=2.5, start=2, duration_s=0.5)
    )
    starts.add(
        ServiceEvent(kind=EventKind.STOPPED, service="worker", at=9.0, start=1, signal="SIGKILL")
    )
    starts.add(ServiceEvent(kind=EventKind.DIED, service="worker", at=9.0, start=2, exit_code=3))
    starts.add(ServiceEvent(kind=EventKind.KILLED, service=None, at=9.0, pid=7))
    first, second = starts.runs
    assert (first.ready_s, first.how, first.by_itself) == (None, "killed by SIGKILL", False)
    assert (second.ready_s, second.how, second.by_itself, second.duration_s) == (
        0.5,
        "exit code 3",
        True,
        7.0,
    )
