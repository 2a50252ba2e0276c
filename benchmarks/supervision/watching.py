# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: the CPU that ci-doctor and its guardian take while eight services are quiet."""

import contextlib
import json
import signal
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from supervision.figures import NotMeasuredError, Row
from supervision.scene import Scene, launch

_SERVICES = 8
_SHARE = 0.005


class Reading(NamedTuple):
    """CPU seconds of ci-doctor and of its guardian, at a monotonic second."""

    at: float
    doctor: float
    guardian: float

    @property
    def cpu(self) -> float:
        return self.doctor + self.guardian


def row(scene: Scene, seconds: float) -> Row:
    """The whole run, start-up included, is held against the target; the quiet part is told beside it."""
    try:
        begun, ready, end = _watch(scene, seconds)
    except NotMeasuredError as error:
        return Row(_title(seconds), _target(), within=False, notes=(str(error),))
    whole, quiet = end.cpu / (end.at - begun), (end.cpu - ready.cpu) / (end.at - ready.at)
    return Row(
        title=_title(seconds),
        target=_target(),
        within=whole <= _SHARE,
        notes=(
            (
                f"whole run: {whole:.3%} of one core ({end.cpu:.2f} s in {end.at - begun:.1f} s: "
                f"ci-doctor {end.doctor:.2f} s, guardian {end.guardian:.2f} s)"
            ),
            f"from ready on: {quiet:.3%} ({end.cpu - ready.cpu:.2f} s in {end.at - ready.at:.1f} s)",
            f"until ready: {ready.cpu:.2f} s of CPU in {ready.at - begun:.1f} s",
        ),
    )


def _title(seconds: float) -> str:
    return f"cost of watching {_SERVICES} quiet services for {seconds:.0f} s"


def _target() -> str:
    return f"<= {_SHARE:.1%} of one core"


def _watch(scene: Scene, seconds: float) -> tuple[float, Reading, Reading]:
    events = scene.folder / "events.ndjson"
    services = {f"s{number}": scene.server("is_quiet", "{port}") for number in range(_SERVICES)}
    probes = [word for name in services for word in ("--ready", f"{name}=tcp://127.0.0.1:{{port}}")]
    begun = time.monotonic()
    process = scene.start(launch(*probes, "--timeout", "60s", "--events", str(events), **services))
    try:
        scene.until(lambda: _ready(events) == _SERVICES, "all are ready", process)
        ready = _read(process.pid)
        time.sleep(max(0.0, begun + seconds - time.monotonic()))
        end = _read(process.pid)
        process.send_signal(signal.SIGTERM)
        scene.finish(process)
    finally:
        process.kill()
        process.wait()
        scene.clear()
    return begun, ready, end


def _ready(events: Path) -> int:
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    return sum(json.loads(line)["event"] == "ready" for line in lines if line.endswith("}"))


def _read(pid: int) -> Reading:
    """The guardian is the child of ci-doctor that is no service; the services are below it."""
    doctor = psutil.Process(pid)
    return Reading(time.monotonic(), _cpu(doctor), sum(map(_cpu, doctor.children())))


def _cpu(process: psutil.Process) -> float:
    """Seconds of user and system; 0 where the process is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return times.user + times.system
    return 0.0
