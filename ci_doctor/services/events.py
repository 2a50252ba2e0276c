# SPDX-License-Identifier: Apache-2.0
"""Acts on a file: what happens to services, one line of JSON per event, written as it happens (docs/launch.md)."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from ci_doctor.errors import UsageError
from ci_doctor.services.outcome import EventKind, ServiceEvent
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor

_ALWAYS = ("service", "start", "pid")
# How a process ended is told of an end even where it is not known.
_ENDS = {EventKind.DIED, EventKind.DESCENDANT_DIED, EventKind.KILLED, EventKind.STOPPED}
_REST = ("name", "url", "log", "duration_s", "peak_rss", "oom")


class EventLog:
    """A file of events, made anew; give it each event. The values of secrets stay out of it.

    A file that cannot be written any more stops nobody: `warn` is told once, and what can be written later is. Nor does
    a pipe that nobody reads.
    """

    def __init__(self, path: Path, redactor: Redactor, warn: Callable[[str], None]) -> None:
        """Raises UsageError where the file cannot be made."""
        self.path = path
        self._redactor = redactor
        self._warn = warn
        self._warned = False
        self._torn = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = (
                os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
            )
            self._descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            raise UsageError(
                f"cannot write events to {path}: {error.strerror or error}",
                hint="name a file that this user can write, or a pipe that is being read",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __call__(self, event: ServiceEvent) -> None:
        """Write one line, at once."""
        line = self._redactor.without_values(msgspec.json.encode(_fields(event)).decode()) + "\n"
        content = (b"\n" if self._torn else b"") + line.encode("utf-8", "replace")
        try:
            while content:
                written = os.write(self._descriptor, content)
                content, self._torn = content[written:], written < len(content)
        except OSError as error:
            if not self._warned:
                self._warned = True
                self._warn(f"cannot write events to {self.path}: {error.strerror or error}")

    def close(self) -> None:
        """Give the file back; may be called again."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = -1


def _fields(event: ServiceEvent) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "t": round(event.at, 6),
        "time": clock.timestamp(),
        "event": event.kind.value,
    }
    fields |= {name: getattr(event, name) for name in _ALWAYS}
    if event.kind in _ENDS:
        fields |= {"exit_code": event.exit_code, "signal": event.signal}
    fields |= {name: value for name in _REST if (value := getattr(event, name)) is not None}
    if event.duration_s is not None:
        fields["duration_s"] = round(event.duration_s, 6)
    return fields
