# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ci_doctor.model.facts.launch import FailureKind, NamedProcess, ServiceFailure, ServiceRun
from ci_doctor.model.outcome import Verdict
from ci_doctor.services.instance import EventKind, ServiceEvent, Starts
from ci_doctor.services.ready import parse_ready
from tests.unit.services.test_launch import running


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
    probe = parse_ready(ready, 8000, directory=Path())
    assert structs.replace(running("kv", 8000), probe=probe).address == address


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


def event(kind: EventKind, at: float, start: int, **more: Any) -> ServiceEvent:
    return ServiceEvent(kind=kind, service="worker", at=at, start=start, **more)


def test_each_start_of_a_service_is_told_apart() -> None:
    starts = Starts(("worker", "unstarted"))
    for each in (
        event(EventKind.STARTED, 1.0, 1, pid=5, log="x"),
        event(EventKind.STARTED, 2.0, 2, pid=6, log="y"),
        event(EventKind.READY, 2.5, 2, pid=6, duration_s=0.5, url="http://h:1"),
        event(EventKind.STOPPING, 8.0, 1, pid=5),
        ServiceEvent(kind=EventKind.KILLED, service=None, at=8.5, pid=7, name="w"),
        event(EventKind.STOPPED, 9.0, 1, pid=5, signal="SIGKILL", peak_rss=7),
        event(EventKind.DIED, 9.0, 2, exit_code=3),
    ):
        starts.add(each)
    first, unstarted, second = starts.runs
    assert first == ServiceRun(
        name="worker", pid=5, log="x", started_at=1.0, ended_at=9.0, signal="SIGKILL", peak_rss=7
    )
    assert (first.how, first.by_itself) == ("killed by SIGKILL", False)
    assert unstarted == ServiceRun(name="unstarted")
    assert (second.start, second.pid, second.url, second.ready_s) == (2, 6, "http://h:1", 0.5)
    assert (second.how, second.by_itself, second.duration_s) == ("exit code 3", True, 7.0)
    assert starts.killed == [NamedProcess(pid=7, name="w")]
