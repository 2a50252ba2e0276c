# SPDX-License-Identifier: Apache-2.0
"""Pure. An event of a service in words."""

from ci_doctor.render.formatting import duration
from ci_doctor.services.instance import EventKind, ServiceEvent

_VERBS = {
    EventKind.STARTED: "started",
    EventKind.READY: "ready",
    EventKind.DIED: "died",
    EventKind.DESCENDANT_DIED: "lost",
    EventKind.STOPPING: "stopping",
    EventKind.KILLED: "killed",
    EventKind.STOPPED: "stopped",
}


def event_line(event: ServiceEvent) -> str:
    """Return one line: the service, what happened, after how long, and how it ended."""
    parts = [event.service, _VERBS[event.kind], _process(event)]
    if event.duration_s is not None:
        time = duration(event.duration_s)
        parts.append(f"after {time}")
    if event.kind is EventKind.READY and event.url:
        parts.append(f"at {event.url}")
    parts.append(ending(event))
    line = " ".join(filter(None, parts))
    if event.kind is EventKind.DESCENDANT_DIED and not ending(event):
        # Only its parent learns that (wait(2)), and an old kernel tells nobody else.
        line += ", and how it ended is not known"
    return line


def _process(event: ServiceEvent) -> str | None:
    """Return the process that the event is about, if a reader needs it."""
    if event.name:
        return f"{event.name} (pid {event.pid})"
    if event.kind is EventKind.STARTED:
        return f"(pid {event.pid}, {event.log})"
    return None


def ending(event: ServiceEvent) -> str:
    """Return how a process ended: by which signal, or with which exit code.

    Empty if it did not end, or if nobody knows.
    """
    if event.signal:
        return f"by {event.signal}"
    if event.exit_code is not None:
        return f"with exit code {event.exit_code}"
    return ""
