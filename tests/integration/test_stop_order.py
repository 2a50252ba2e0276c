# SPDX-License-Identifier: Apache-2.0
"""Helpers of a server outlive it for a moment: a stop leaves them the time to tidy up."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ci_doctor.model.facts.launch import StopResult
from ci_doctor.services.running import RunningGroup
from ci_doctor.system.guardian import Guardian
from ci_doctor.system.processes import tree_stop
from ci_doctor.system.processes.tree import OwnTree
from tests.support.scene import PROGRAMS, TCP, Scene

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
SHARED = Path("/dev/shm")
WAYS = ["ignores", "blocks", "ignores-INT", "ignores-TERM", "polls", "stops", "waits"]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    assert scene.living() == []


def stopped(scene: Scene, program: str, *arguments: str) -> StopResult:
    return scene.stopped(api=scene.service(program, "{port}", *arguments, ready=TCP))


@contextlib.contextmanager
def own_tree() -> Iterator[tuple[Guardian, OwnTree]]:
    """A guardian and the tree that it starts; nothing is left of either."""
    guardian = Guardian.start()
    tree = OwnTree(guardian)
    try:
        yield guardian, tree
    finally:
        tree.kill(5)
        guardian.close()


def segment(directory: Path) -> Path:
    return SHARED / (directory / "segment").read_text()


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.gate(2)
def test_a_helper_may_tidy_up_after_its_server(scene: Scene, how: str) -> None:
    result = stopped(scene, "keeps_a_helper", how)
    assert (scene.directory / "tidied").exists()
    assert result.killed == ()


@pytest.mark.parametrize("how", ["ignores", "ignores-INT", "polls"])
@pytest.mark.gate(1)
def test_a_helper_may_tidy_up_after_a_server_that_crashed(scene: Scene, how: str) -> None:
    failure = scene.failed(api=scene.service("keeps_a_helper", "{port}", how, "--crash", ready=TCP))
    assert failure.exit_code == 3
    assert failure.stopped is not None
    assert (scene.directory / "tidied").exists()
    assert failure.stopped.killed == ()


@pytest.mark.parametrize("how", ["ignores", "stops"])
@pytest.mark.gate(1)
def test_a_helper_may_tidy_up_after_a_server_that_had_to_be_killed(scene: Scene, how: str) -> None:
    async def run() -> StopResult:
        service = scene.service("keeps_a_helper", "{port}", how, ready=TCP)
        group = await scene.started(api=service)
        return group.kill_now()

    result = asyncio.run(run())
    assert (scene.directory / "tidied").exists()
    assert len(result.killed) == 1, "the server itself"


def test_a_stop_leaves_no_shared_memory(scene: Scene) -> None:
    assert stopped(scene, "shares_memory").killed == ()
    assert not segment(scene.directory).exists()


def test_a_kill_at_once_leaves_no_shared_memory(scene: Scene) -> None:
    async def run() -> RunningGroup:
        group = await scene.started(api=scene.service("shares_memory", "{port}", ready=TCP))
        group.kill_now()
        return group

    asyncio.run(run())
    assert not segment(scene.directory).exists()


def test_a_service_that_dies_at_its_start_leaves_no_shared_memory(scene: Scene) -> None:
    words = [*scene.words("shares_memory", "{port}"), "--crash"]
    spec = scene.service("shares_memory", ready=TCP, command=words)
    assert scene.failed(api=spec).exit_code == 3
    assert not segment(scene.directory).exists()


@pytest.mark.parametrize("how", ["ignores", "blocks", "polls", "stops"])
@pytest.mark.gate(1)
def test_without_ci_doctor_a_helper_may_tidy_up_too(tmp_path: Path, how: str) -> None:
    program = PROGRAMS / "keeps_a_helper.py"
    holder = [sys.executable, str(PROGRAMS / "holds_a_guardian.py"), "waits", ""]
    words = [*holder, sys.executable, str(program), "0", how, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with subprocess.Popen(
        words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        pids = json.loads(process.stdout.readline())
        guardian = psutil.Process(pids["guardian"])
        assert process.stdout.readline() == "listening\n"
        process.kill()
    guardian.wait(60)
    assert (tmp_path / "tidied").exists()


@pytest.mark.parametrize("how", ["ignores", "ignores-INT"])
@pytest.mark.gate(1)
def test_a_stop_goes_on_when_the_last_helper_has_ended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    # Whoever waited for the whole of them would wait for the 1000 s of the test's own limit.
    for name in ("HELPERS_S", "OWN_TIME_S"):
        monkeypatch.setattr(tree_stop, name, 1000.0)
    with own_tree() as (guardian, tree):
        reading, writing = os.pipe()
        child = guardian.spawn(
            scene.words("keeps_a_helper", "0", how),
            environment={**os.environ, "READY": "1"},
            directory=scene.directory,
            output=writing,
        )
        os.close(writing)
        with os.fdopen(reading) as said:
            assert said.readline() == "listening\n"
        asyncio.run(tree.terminate(1000.0))
        assert tree.living() == ()
        assert child.wait() == 0


def test_an_only_process_that_ignores_sigint_is_asked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_stop, "OWN_TIME_S", 1000.0)
    with own_tree() as (guardian, tree):
        child = guardian.spawn(
            ["sh", "-c", "trap '' INT; exec sleep 1000"],
            environment=dict(os.environ),
            directory=tmp_path,
            output=2,
        )
        while "sleep" not in Path(f"/proc/{child.pid}/comm").read_text():
            pass
        asyncio.run(tree.terminate(3000.0))
        assert child.wait() == -signal.SIGTERM
