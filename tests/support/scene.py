# SPDX-License-Identifier: Apache-2.0
"""Starts groups of services that run programs of tests/support, and says what they left behind."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil

from ci_doctor.model.facts.launch import ServiceFailure, StopResult
from ci_doctor.services.group import start_group
from ci_doctor.services.instance import EventKind, ServiceEvent
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext, ServiceSpec
from tests.support.cli import BARE

PROGRAMS = Path(__file__).parent / "programs"
TCP = "tcp://127.0.0.1:{port}"


def living_with(directory: Path) -> list[str]:
    """The command lines of the processes that run and have this directory as one of their words."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or ()
        if str(directory) in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(" ".join(words))
    return found


class Scene:
    """Services that run programs of tests/support, each with the test's folder as its last argument."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.events: list[ServiceEvent] = []
        self.context = LaunchContext(
            environment=dict(os.environ), directory=directory, log_directory=directory / "logs"
        )

    def words(self, program: str, *arguments: str) -> list[str]:
        return [*BARE, str(PROGRAMS / f"{program}.py"), *arguments, str(self.directory)]

    def service(
        self, program: str, *arguments: str, ready: str = "/health", **options: object
    ) -> ServiceSpec:
        words = self.words(program, *(arguments or ("{port}",)))
        spec = ServiceSpec(command=words, env={"PORT": "{port}"}, ready=ready, start_timeout="30s")
        return msgspec.structs.replace(spec, **options)

    async def start(
        self, names: Sequence[str] = (), **specs: ServiceSpec
    ) -> RunningGroup | ServiceFailure:
        return await start_group(specs, names or list(specs), self.context, self.events.append)

    async def started(self, names: Sequence[str] = (), **specs: ServiceSpec) -> RunningGroup:
        group = await self.start(names, **specs)
        assert isinstance(group, RunningGroup), group
        return group

    def stopped(self, **specs: ServiceSpec) -> StopResult:
        """What an orderly stop of them comes to."""

        async def run() -> StopResult:
            return await (await self.started((), **specs)).stop()

        return asyncio.run(run())

    def failed(self, names: Sequence[str] = (), **specs: ServiceSpec) -> ServiceFailure:
        failure = asyncio.run(self.start(names, **specs))
        assert isinstance(failure, ServiceFailure)
        return failure

    def kinds(self) -> list[str]:
        return [
            f"{event.kind} {event.service}"
            for event in self.events
            if event.kind is not EventKind.KILLED
        ]

    def log(self, name: str, number: int = 1) -> Path:
        return self.directory / "logs" / f"{name}-{number}.log"

    def living(self) -> list[str]:
        """The command lines of what this scene has started and still runs."""
        return living_with(self.directory)
