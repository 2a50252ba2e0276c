# SPDX-License-Identifier: Apache-2.0
"""Reads the logs of services while they are written: every line behind its service's name."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ci_doctor.commands.telling.line import Span
from ci_doctor.commands.telling.teller import Teller
from ci_doctor.render.formatting import size
from ci_doctor.services.instance import EventKind, ServiceEvent
from ci_doctor.services.logs import LogWatch
from ci_doctor.system.secrets.private_keys import StreamedKeys

# One for each service in turn, readable on a dark terminal and on a light one.
_COLOURS = ("36", "33", "35", "32", "34", "91")


class ServiceOutput:
    """Call it with each event of a group, inside `with` and inside an event loop."""

    def __init__(self, names: Sequence[str], tell: Teller[Any]) -> None:
        self._labels: dict[str, Span] = {}
        widest = max(map(len, names))
        # More services than colours share them in turn.
        for name, colour in zip(names, itertools.cycle(_COLOURS), strict=False):
            padded = name.ljust(widest)
            self._labels[name] = Span(f"{padded} | ", colour)
        self._tell = tell
        self._watches: list[LogWatch] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for watch in self._watches:
            watch.close()

    def __call__(self, event: ServiceEvent) -> None:
        """Follow the log of a service that has started."""
        if event.kind is not EventKind.STARTED or event.log is None or event.service is None:
            return
        label = self._labels[event.service]
        log = event.log
        keys = StreamedKeys()

        def show(lines: list[str]) -> None:
            text = "\n".join(lines)
            self._tell.output(label, keys.hide(text))

        def skip(count: int) -> None:
            note = f"({size(count)} came too fast to be shown; they are in {log})"
            self._tell.output(label, note)

        watch = LogWatch(Path(log), show, on_skipped=skip)
        self._watches.append(watch)
