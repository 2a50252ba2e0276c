# SPDX-License-Identifier: Apache-2.0
"""The life of a service as events, and a way to read what a source makes of them. Pure."""

from collections.abc import Sequence
from typing import Any

from ci_doctor.commands.teller import ProgressSource
from ci_doctor.services.instance import EventKind, ServiceEvent

STARTED = ServiceEvent(
    kind=EventKind.STARTED, service="vllm", at=10.0, pid=4242, log="logs/vllm-1.log"
)
READY = ServiceEvent(
    kind=EventKind.READY,
    service="vllm",
    at=13.0,
    pid=4242,
    duration_s=3.0,
    url="http://127.0.0.1:81",
)
DIED = ServiceEvent(
    kind=EventKind.DIED, service="vllm", at=14.0, pid=4242, duration_s=4.0, signal="SIGSEGV"
)
STOPPED = ServiceEvent(
    kind=EventKind.STOPPED, service="kv", at=15.0, pid=4241, duration_s=0.2, exit_code=0
)
LOST = ServiceEvent(
    kind=EventKind.DESCENDANT_DIED, service="vllm", at=11.0, pid=7, name="worker", signal="SIGKILL"
)


def taken(source: ProgressSource[Any], *events: Any) -> list[tuple[str, str]]:
    """The lines of `events`, as kind and text."""
    return [(line.kind.value, line.text) for event in events for line in source.take(event)]


def live(source: ProgressSource[Any], now: float = 12.5, columns: int = 79) -> Sequence[str]:
    """The live lines, neither clipped nor coloured."""
    return ["".join(span.text for span in spans).rstrip() for spans in source.live(now, columns)]
