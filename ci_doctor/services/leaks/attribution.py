# SPDX-License-Identifier: Apache-2.0
"""Whose a new thing is: what one of the services' own processes held, made or named. Pure.

Another job's things on a shared machine are never a service's. So a new thing without such evidence
belongs to nobody known.
"""

import re
from collections.abc import Iterator, Mapping

from ci_doctor.services.leaks.places import IpcObject

# Shorter numbers stand in names by chance.
_PID = re.compile(r"(?<!\d)\d{3,}(?!\d)")


class Witnesses:
    """Which service a path or a pid belongs to, and how that is known."""

    def __init__(self) -> None:
        self._by_path: dict[str, dict[str, str]] = {}
        self._by_pid: dict[int, str] = {}

    def saw(self, path: str, service: str, why: str) -> None:
        """A process of `service` had something to do with `path`; the first sight counts."""
        self._by_path.setdefault(path, {}).setdefault(service, why)

    def belongs(self, pid: int, service: str) -> None:
        """The process `pid` is one of `service`."""
        self._by_pid.setdefault(pid, service)

    def of_path(self, path: str) -> Mapping[str, str]:
        """The services of `path`, each with the reason."""
        owners = self._by_path.get(path)
        if owners:
            return owners
        return dict(self._by_name(path))

    def of_object(self, pids: tuple[int, ...], ipc_object: IpcObject) -> Mapping[str, str]:
        """The service of a System V object that `pids` made or used last."""
        for pid in pids:
            service = self._by_pid.get(pid)
            if service is not None:
                return {service: f"{ipc_object.kind} of pid {pid}"}
        return {}

    def _by_name(self, path: str) -> Iterator[tuple[str, str]]:
        name = path.rpartition("/")[2]
        for text in _PID.findall(name):
            service = self._by_pid.get(int(text))
            if service is not None:
                yield service, f"its name holds the pid {text}"
