# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec import structs

from ci_doctor.commands.progress import event_line
from ci_doctor.services.instance import EventKind, ServiceEvent
from tests.unit.commands.events import DIED, LOST, READY, STARTED, STOPPED


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (STARTED, "vllm started (pid 4242, logs/vllm-1.log)"),
        (READY, "vllm ready after 3.0 s at http://127.0.0.1:81"),
        (DIED, "vllm died after 4.0 s by SIGSEGV"),
        (STOPPED, "kv stopped after 0.2 s with exit code 0"),
        (LOST, "vllm lost worker (pid 7) by SIGKILL"),
        (
            structs.replace(LOST, signal=None),
            "vllm lost worker (pid 7), and how it ended is not known",
        ),
        (
            ServiceEvent(
                kind=EventKind.KILLED, service=None, at=1.0, pid=7, name="worker", signal="SIGKILL"
            ),
            "killed worker (pid 7) by SIGKILL",
        ),
    ],
)
def test_each_event_has_its_words(event: ServiceEvent, line: str) -> None:
    assert event_line(event) == line


def test_every_kind_has_a_verb() -> None:
    for kind in EventKind:
        assert event_line(ServiceEvent(kind=kind, service="vllm", at=1.0, pid=1)) != "vllm"
