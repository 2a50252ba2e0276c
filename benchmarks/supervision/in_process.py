# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a group started through the library, whose events are timed where a caller receives them."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ci_doctor.model.facts.launch import ServiceFailure
from ci_doctor.services.group import start_group
from ci_doctor.services.instance import ServiceEvent
from ci_doctor.services.spec import LaunchContext, ServiceSpec
from supervision.figures import NotMeasuredError
from supervision.scene import Scene


class Told:
    """The monotonic ns at which the callback was called, by kind of event; the first of each kind counts."""

    def __init__(self) -> None:
        self.at: dict[str, int] = {}
        self.said: dict[str, float] = {}
        self._waiting: dict[str, asyncio.Event] = {}

    def __call__(self, event: ServiceEvent) -> None:
        at, kind = time.monotonic_ns(), str(event.kind)
        self.at.setdefault(kind, at)
        self.said.setdefault(kind, event.at)
        self._waiting.setdefault(kind, asyncio.Event()).set()

    async def wait_for(self, kind: str, limit_s: float) -> None:
        try:
            async with asyncio.timeout(limit_s):
                await self._waiting.setdefault(kind, asyncio.Event()).wait()
        except TimeoutError as error:
            raise NotMeasuredError(f"no `{kind}` event within {limit_s:.0f} s") from error


def died(scene: Scene, server: Sequence[str]) -> Told:
    """The events of a service that dies before it is ready."""

    async def run() -> Told:
        told = Told()
        started = await _start(scene, server, "tcp://127.0.0.1:{port}", told)
        if not isinstance(started, ServiceFailure):
            await started.stop()
            raise NotMeasuredError("a dying server was found ready")
        return told

    return _through(run)


def ready(scene: Scene, server: Sequence[str], probe: str, then: str | None = None) -> Told:
    """The events until a service is ready, and where asked until there is one of the kind `then`."""

    async def run() -> Told:
        told = Told()
        started = await _start(scene, server, probe, told)
        if isinstance(started, ServiceFailure):
            raise NotMeasuredError(started.message)
        try:
            if then:
                await told.wait_for(then, 10.0)
        finally:
            await started.stop()
        return told

    return _through(run)


async def _start(scene: Scene, server: Sequence[str], probe: str, told: Told) -> Any:
    context = LaunchContext(
        environment=dict(os.environ), directory=scene.folder, log_directory=scene.folder / "logs"
    )
    spec = ServiceSpec(
        command=list(server), env={"PORT": "{port}"}, ready=probe, start_timeout="30s"
    )
    return await start_group({"vllm": spec}, ["vllm"], context, told)


def _through(run: Callable[[], Coroutine[Any, Any, Told]]) -> Told:
    try:
        return asyncio.run(run())
    except NotMeasuredError:
        raise
    except Exception as error:  # the row is a miss, the others are still measured
        raise NotMeasuredError(f"{type(error).__name__}: {error}") from error
