# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: how long after a probe would first succeed a server is found ready."""

import random
import time
from collections.abc import Callable
from functools import partial

from supervision import in_process
from supervision.figures import Contender, NotMeasuredError, Row, alternate, milliseconds, named
from supervision.peers import Peers, command_line
from supervision.scene import Scene, free_port

_PEERS = ("curl loop", "wait-on", "start-server-and-test", "mirakuru")
_WITHIN_S = 0.100


def row(scene: Scene, runs: int, peers: Peers) -> Row:
    """A server that refuses connections until it is ready, and one that answers 503; honcho knows no readiness."""
    ours = {f"ci-doctor, server {before} before": before for before in ("refuses", "busy")}
    titles = peers.titles(_PEERS)
    contenders = [
        *(Contender(title, partial(_ours, scene, before)) for title, before in ours.items()),
        *(Contender(title, _peer(scene, peers, name)) for name, title in titles.items()),
    ]
    figures = alternate(contenders, runs)
    slowest = max(figures[title].median for title in ours)
    worst = max(max(figures[title].seconds, default=float("inf")) for title in ours)
    return Row(
        title="ready noticed after the probe first succeeds",
        target=f"median <= {milliseconds(_WITHIN_S)} ms",
        within=slowest <= _WITHIN_S,
        figures=named(figures, peers.absent(_PEERS)),
        notes=(f"our longest: {milliseconds(worst)} ms; the peers' server refuses before",),
    )


def _server(scene: Scene, port: object, before: str) -> list[str]:
    # At any point of a probe's rhythm, and late enough for pauses to have grown.
    return scene.server("gets_ready", port, scene.note, round(random.uniform(0.7, 1.7), 3), before)


def _ours(scene: Scene, before: str) -> float:
    told = in_process.ready(scene, _server(scene, "{port}", before), "/health")
    return _since_ready(scene, told.at["ready"])


def _peer(scene: Scene, peers: Peers, name: str) -> Callable[[], float]:
    told = scene.folder / "told"

    def run() -> float:
        told.unlink(missing_ok=True)
        port = free_port()
        ended = scene.run(command_line(peers, name, scene, _server(scene, port, "refuses"), port))
        if ended.status:
            raise NotMeasuredError(ended.gist)
        at = ended.at
        if told.exists():  # written by those that go on after it, in ns since 1970
            at = int(told.read_text(encoding="ascii")) - (time.time_ns() - time.monotonic_ns())
        return _since_ready(scene, at)

    return run


def _since_ready(scene: Scene, at: int) -> float:
    noted = scene.noted()
    scene.clear()
    return (at - noted) / 1e9
