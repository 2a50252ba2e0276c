# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: what is left of a family of orphans once ci-doctor has stopped, or was killed by -9."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from supervision.figures import Contender, NotMeasuredError, Row, alternate, named
from supervision.peers import Peers, command_line
from supervision.scene import Scene, eventually, free_port, launch

_FAMILY = Path(__file__).parents[2] / "tests" / "support" / "programs" / "leaves_a_family.py"
_AFTER_KILL_S = 5.0
_HONCHO_S = 10.0  # it waits for the end of pipes that its survivors hold
_TCP = "vllm=tcp://127.0.0.1:{port}"


def row(scene: Scene, runs: int, peers: Peers) -> Row:
    """The most survivors of each way to end, over all runs, and how long it took."""
    most: dict[str, int] = {}

    def counted(name: str, way: Callable[[], float], times: int | None = None) -> Contender:
        def run() -> float:
            try:
                return way()
            finally:
                most[name] = max(most.get(name, 0), len(scene.left()))
                scene.clear()

        return Contender(name, run, times)

    ways = {
        "parent alive: SIGTERM to exit": _alive,
        "parent crashed: start to exit": _crashed,
        "ci-doctor killed by -9, to the last one's end": _killed,
    }
    contenders = [counted(name, partial(way, scene)) for name, way in ways.items()]
    control = [
        counted(f"{title}, parent alive: SIGTERM to exit", partial(_honcho, scene, peers), 3)
        for title in peers.titles(["honcho"]).values()
    ]
    figures = alternate([*contenders, *control], runs)
    return Row(
        title="survivors of stop, over the four kinds of orphan",
        target="0 of 4, each way",
        within=not any(most[name] or figures[name].problem for name in ways),
        figures=named(figures, peers.absent(["honcho"])),
        notes=tuple(f"{name}: {count} survive at most" for name, count in most.items()),
    )


def _family(scene: Scene, *more: str) -> list[str]:
    # The folder is the marker by which they are counted; one of the four keeps nothing but its arguments.
    return [sys.executable, str(_FAMILY), "{port}", *more, str(scene.folder)]


def _options(scene: Scene) -> tuple[str, ...]:
    return ("--ready", _TCP, "--timeout", "30s", "--report-dir", str(scene.folder / "report"))


def _alive(scene: Scene) -> float:
    return _terminated(scene, launch(*_options(scene), vllm=_family(scene)))


def _honcho(scene: Scene, peers: Peers) -> float:
    """That there are survivors to be counted."""
    family = [str(free_port()) if word == "{port}" else word for word in _family(scene)]
    return _terminated(scene, command_line(peers, "honcho", scene, family, 0), _HONCHO_S)


def _terminated(scene: Scene, words: list[str], limit_s: float = 30.0) -> float:
    process = scene.start(words)
    try:
        _complete(scene, process)
        began = time.monotonic_ns()
        process.send_signal(signal.SIGTERM)
        return (scene.finish(process, limit_s).at - began) / 1e9
    finally:
        process.kill()
        process.wait()


def _crashed(scene: Scene) -> float:
    began = time.monotonic_ns()
    ended = scene.run(launch(*_options(scene), vllm=_family(scene, "--die")))
    if ended.status != 1:
        raise NotMeasuredError(ended.gist)
    return (ended.at - began) / 1e9


def _killed(scene: Scene) -> float:
    process = scene.start(launch(*_options(scene), vllm=_family(scene)))
    try:
        _complete(scene, process)
        os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(NotMeasuredError):  # what is left is counted
            return eventually(lambda: not scene.left(), "all are gone", _AFTER_KILL_S)
        return _AFTER_KILL_S
    finally:
        process.kill()
        process.wait()


def _complete(scene: Scene, process: subprocess.Popen[bytes]) -> None:
    scene.until(lambda: len(scene.left()) == 5, "the family is complete", process)
