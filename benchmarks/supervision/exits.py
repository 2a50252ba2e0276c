# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: how long after its server's death a whole command-line tool has ended."""

from collections.abc import Callable
from functools import partial

from supervision.figures import (
    Contender,
    Figure,
    NotMeasuredError,
    Row,
    alternate,
    milliseconds,
    named,
)
from supervision.peers import Peers, command_line
from supervision.scene import DOCTOR, PROGRAMS, PYTHON, Scene, closed_port, launch

_AGE_S = 0.7
# By then the environment has been read, and all that the report needs is loaded.
_LATE_S = 2.0
_TIME_OUTS = {"curl loop", "wait-on"}  # they never look at the process
_PEERS = ("curl loop", "wait-on", "start-server-and-test", "mirakuru", "honcho")
_WITHIN_S = 0.050
_LAST_LINE = "ImportError: libcudart.so.12"
_OURS = "ci-doctor launch"
_OURS_LATE = "ci-doctor launch, death at 2 s"


def row(scene: Scene, runs: int, peers: Peers) -> Row:
    """Ours with its tail printed and its report written, the bare minimum of a tool, and the peers."""
    titles = peers.titles(_PEERS)
    contenders = [
        Contender(_OURS, partial(_ours, scene)),
        Contender("ci-doctor launch, a worker left behind", partial(_ours, scene, "--worker")),
        Contender(_OURS_LATE, partial(_ours, scene, age_s=_LATE_S)),
        Contender("ci-doctor wait, death at 2 s", partial(_wait, scene)),
        Contender("limit: Popen, pidfd, exit", partial(_limit, scene)),
        *(
            Contender(title, _peer(scene, peers, name), runs=3 if name in _TIME_OUTS else None)
            for name, title in titles.items()
        ),
    ]
    figures = alternate(contenders, runs)
    best = min(
        (figures[title] for title in titles.values()),
        key=lambda each: each.median,
        default=Figure("none"),
    )
    ours = max(figures[_OURS].median, figures[_OURS_LATE].median)
    return Row(
        title=f"service death, at {_AGE_S} s, to the tool's own exit",
        target=f"median <= {milliseconds(_WITHIN_S)} ms, below every peer",
        within=ours <= _WITHIN_S and ours < best.median,
        figures=named(figures, peers.absent(_PEERS)),
        notes=(
            f"the best peer here: {best.name}",
            "curl loop and wait-on wait for their own time-out: 3 runs each",
        ),
    )


def _ours(scene: Scene, *more: str, age_s: float = _AGE_S) -> float:
    report = scene.folder / "report"
    for old in report.glob("report.*"):
        old.unlink()
    ended = scene.run(
        launch(
            "--report-dir",
            str(report),
            "--timeout",
            "30s",
            vllm=scene.server("dies", scene.note, age_s, "{port}", *more),
        )
    )
    if ended.status != 1 or _LAST_LINE not in ended.output:
        raise NotMeasuredError(ended.gist)
    if not (report / "report.json").exists():
        raise NotMeasuredError("it wrote no report.json")
    if left := scene.left():
        raise NotMeasuredError(f"it left {len(left)} processes")
    return _since_death(scene, ended.at)


def _wait(scene: Scene) -> float:
    server = scene.start(scene.server("dies", scene.note, _LATE_S))
    with closed_port() as port:
        ready = f"http://127.0.0.1:{port}/health"
        report = str(scene.folder / "report")
        words = [DOCTOR, "wait", "--pid", str(server.pid), "--ready", ready, "--report-dir", report]
        ended = scene.run(words)
    server.wait()
    if ended.status != 1:
        raise NotMeasuredError(ended.gist)
    return _since_death(scene, ended.at)


def _limit(scene: Scene) -> float:
    words = [*PYTHON, str(PROGRAMS / "bare_launcher.py"), *scene.server("dies", scene.note, _AGE_S)]
    return _since_death(scene, scene.run(words).at)


def _peer(scene: Scene, peers: Peers, name: str) -> Callable[[], float]:
    def run() -> float:
        with closed_port() as port:
            ended = scene.run(
                command_line(peers, name, scene, scene.server("dies", scene.note, _AGE_S), port)
            )
        return _since_death(scene, ended.at)

    return run


def _since_death(scene: Scene, at: int) -> float:
    noted = scene.noted()
    scene.clear()
    return (at - noted) / 1e9
