# SPDX-License-Identifier: Apache-2.0
from ci_doctor.model.service import NamedProcess
from ci_doctor.services.launch.record import LaunchRecord, ServiceRun
from ci_doctor.services.outcome import EventKind, ServiceEvent


def test_events_make_the_record() -> None:
    record = LaunchRecord(("kv", "vllm"))
    for event in (
        ServiceEvent(kind=EventKind.STARTED, service="kv", at=1.0, pid=5, log="l"),
        ServiceEvent(
            kind=EventKind.READY, service="kv", at=1.5, pid=5, duration_s=0.5, url="http://h:1"
        ),
        ServiceEvent(kind=EventKind.STOPPING, service="kv", at=2.0, pid=5),
        ServiceEvent(
            kind=EventKind.KILLED, service=None, at=2.5, pid=9, name="w", signal="SIGKILL"
        ),
        ServiceEvent(
            kind=EventKind.STOPPED, service="kv", at=3.0, pid=5, signal="SIGTERM", peak_rss=7
        ),
    ):
        record.add(event)
    kv, vllm = record.services
    assert kv == ServiceRun(
        name="kv", pid=5, log="l", url="http://h:1", started_at=1.0, ready_s=0.5, ended_at=3.0, signal="SIGTERM", peak_rss=7
    )  # fmt: skip
    assert vllm == ServiceRun(name="vllm")
    assert record.killed == [NamedProcess(pid=9, name="w")]
