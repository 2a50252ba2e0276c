# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: how long after a death the library's callback is told of it."""

import os
import random
import select
import statistics
import subprocess
import time

from supervision import in_process
from supervision.figures import Contender, Row, alternate, milliseconds, named
from supervision.scene import Scene

_AGE_S = 0.3  # the waiting has long begun, and the probe is in its rhythm
_TIMES_THE_LIMIT = 3.0
_NOTICED_WITHIN_S = 0.010


def event_row(scene: Scene, runs: int) -> Row:
    """The death of a service: our `died` callback beside a pidfd and select(2) in the same process."""
    stamps: list[float] = []

    def ours() -> float:
        told = in_process.died(scene, scene.server("dies", scene.note, _AGE_S))
        noted = scene.noted()
        stamps.append(told.said["died"] - noted / 1e9)
        scene.clear()
        return (told.at["died"] - noted) / 1e9

    figures = alternate(
        [Contender("ci-doctor", ours), Contender("pidfd, in-process", lambda: _pidfd(scene))], runs
    )
    ratio = figures["ci-doctor"].median / figures["pidfd, in-process"].median
    stamp = milliseconds(statistics.median(stamps[1:])) if len(stamps) > 1 else "-"
    return Row(
        title="service death to the `died` event",
        target=f"<= {_TIMES_THE_LIMIT:.0f}x the in-process pidfd limit",
        within=ratio <= _TIMES_THE_LIMIT,
        figures=named(figures, {}),
        notes=(f"ratio {ratio:.2f}; the event's own `at` is {stamp} ms (median) after the death",),
    )


def descendant_row(scene: Scene, runs: int) -> Row:
    """A worker that is killed under a parent that lives on."""

    def ours() -> float:
        # At any point of the scan's rhythm, and long after the worker can have been discovered.
        server = scene.server(
            "loses_worker", "{port}", scene.note, round(random.uniform(1.0, 2.0), 3)
        )
        told = in_process.ready(scene, server, "tcp://127.0.0.1:{port}", then="descendant-died")
        noted = scene.noted()
        scene.clear()
        return (told.at["descendant-died"] - noted) / 1e9

    figures = alternate([Contender("ci-doctor", ours)], runs)
    return Row(
        title="a discovered descendant's death to the `descendant-died` event",
        target=f"<= {milliseconds(_NOTICED_WITHIN_S)} ms",
        within=figures["ci-doctor"].median <= _NOTICED_WITHIN_S,
        figures=named(figures, {}),
        notes=("no peer looks at descendants",),
    )


def _pidfd(scene: Scene) -> float:
    words = scene.server("dies", scene.note, _AGE_S)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        descriptor = os.pidfd_open(process.pid)
        select.select([descriptor], [], [])
        at = time.monotonic_ns()
        os.close(descriptor)
    noted = scene.noted()
    scene.clear()
    return (at - noted) / 1e9
