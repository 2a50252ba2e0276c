# SPDX-License-Identifier: Apache-2.0
from ci_doctor.restart.report import Starts
from ci_doctor.services.instance import EventKind, ServiceEvent


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
    assert (first.outcome, first.by_itself) == ("never ready, ended: killed by SIGKILL", False)
    assert (second.outcome, second.by_itself, second.duration_s) == (
        "ready after 0.5 s, died: exit code 3",
        True,
        7.0,
    )
