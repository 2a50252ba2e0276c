# SPDX-License-Identifier: Apache-2.0
"""Acts on a file: writes each event of a service as a line of JSON (docs/launch.md)."""

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
from ci_doctor.system.files.writing import make_directory
from ci_doctor.system.secrets.redaction import Redactor

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ALWAYS = ("service", "start", "pid")
# Their lines hold how the process ended, even if nobody knows.
_ENDS = {EventKind.DIED, EventKind.DESCENDANT_DIED, EventKind.KILLED, EventKind.STOPPED}
_REST = ("name", "url", "log", "duration_s", "peak_rss", "oom")


class EventLog:
    """A new file of events; call it with each event. The values of secrets stay out of it.

    A file that cannot be written any more, or a pipe that nobody reads, stops nothing: `warn` gets
    one sentence, and what can be written later is.
    """

    def __init__(self, path: Path, redactor: Redactor, warn: Callable[[str], None]) -> None:
        """Raises UsageError if the file cannot be made."""
        self.path = path
        self._redactor = redactor
        self._warn = warn
        self._warned = False
        self._torn = False
        try:
            make_directory(path.parent)
            # O_NONBLOCK, because the open of a pipe without a reader would block.
            self._descriptor = os.open(path, _NEW_FILE | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
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
        # A log line or path may hold bytes that are no UTF-8.
        content = line.encode("utf-8", "replace")
        if self._torn:  # the line before this one was cut off
            content = b"\n" + content
        try:
            while content:
                written = os.write(self._descriptor, content)
                self._torn = written < len(content)
                content = content[written:]
        except OSError as error:
            # Once: a full disk would repeat it with each event.
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
    for name in _ALWAYS:
        fields[name] = getattr(event, name)
    if event.kind in _ENDS:
        fields["exit_code"] = event.exit_code
        fields["signal"] = event.signal
    for name in _REST:
        value = getattr(event, name)
        if value is not None:
            fields[name] = value
    if event.duration_s is not None:
        fields["duration_s"] = round(event.duration_s, 6)
    return fields
