# SPDX-License-Identifier: Apache-2.0
"""What services leave behind is found, and belongs to whom it belongs."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.model.facts.launch import LeftBehind, LeftKind, StopResult
from ci_doctor.model.outcome import Severity
from ci_doctor.services.findings import leak_findings, leak_table
from ci_doctor.services.spec import ServiceSpec
from tests.support.cli import Ran, inside
from tests.support.scene import PROGRAMS, TCP, Scene

pytestmark = pytest.mark.integration

WHAT = {
    "segment": LeftKind.SHARED_MEMORY,
    "semaphore": LeftKind.SEMAPHORE,
    "sysv": LeftKind.SYSV_SHARED_MEMORY,
    "sets": LeftKind.SYSV_SEMAPHORES,
    "queue": LeftKind.SYSV_QUEUE,
    "file": LeftKind.TEMPORARY_FILE,
    "folder": LeftKind.TEMPORARY_DIRECTORY,
    "socket": LeftKind.SOCKET,
    "pid": LeftKind.TEMPORARY_FILE,
}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A scene whose temporary files lie in a folder that all services share."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    scene = Scene(tmp_path)
    yield scene
    assert scene.living() == []


def service(scene: Scene, what: str, **options: object) -> ServiceSpec:
    return scene.service("leaves_things", "{port}", what, ready=TCP, **options)


def left_by(scene: Scene, **specs: ServiceSpec) -> LeftBehind:
    return scene.stopped(**specs).left_behind


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.gate(3)
def test_what_a_service_leaves_is_named_and_the_remedy_removes_it(scene: Scene, what: str) -> None:
    left = left_by(scene, api=service(scene, what))
    (thing,) = left.things
    name = (scene.directory / "name").read_text()
    assert (thing.kind, thing.name, thing.services) == (WHAT[what], name, ("api",))
    assert (thing.strict, thing.known) == (False, None)
    assert thing.remedy is not None
    subprocess.run(shlex.split(thing.remedy), check=True)
    assert left_by(scene, api=service(scene, "nothing")).things == ()


KNOWN = {
    "vllm": ("ZeroMQ sockets of vLLM", 3),
    "sglang": ("ZeroMQ sockets of SGLang", 3),
    "inductor": ("compile cache of PyTorch", 1),
    "elastic": ("logs of torchrun", 1),
    "ray": ("session directory of Ray", 1),
    "triton": ("compile cache of Triton", 1),
}


@pytest.mark.parametrize("what", KNOWN)
@pytest.mark.gate(2)
def test_what_a_known_server_leaves_by_design_is_known(scene: Scene, what: str) -> None:
    left = left_by(scene, api=service(scene, what))
    names = (scene.directory / "name").read_text().split("\n")
    assert {thing.name for thing in left.things} == set(names)
    assert [thing.known for thing in left.things] == [KNOWN[what][0]] * KNOWN[what][1]
    assert list(leak_findings(left)) == []
    (table,) = leak_table(left)
    (row,) = (row for row in table.rows if row.label == "api")
    assert row.cells[0].value == KNOWN[what][0]


def test_strict_counts_what_is_known_too(scene: Scene) -> None:
    left = left_by(scene, api=service(scene, "vllm", leaks="strict"))
    (finding,) = leak_findings(left)
    assert finding.severity is Severity.ERROR
    (evidence,) = finding.evidence
    assert evidence.excerpt is not None
    assert len(evidence.excerpt.splitlines()) == 3


def test_what_was_there_before_is_no_leak(scene: Scene) -> None:
    with (scene.directory / "temporary" / "older").open("w"):
        words = ["sh", "-c", 'exec 5<temporary/older; exec "$@"', "sh"]
        program = scene.words("leaves_things", "{port}", "nothing")
        spec = service(scene, "nothing", command=[*words, *program])
        assert left_by(scene, api=spec).things == ()


def test_what_nobody_is_known_to_have_made_is_only_counted(scene: Scene) -> None:
    left = left_by(scene, api=service(scene, "closed"))
    assert left.things == ()
    assert left.unknown[str(scene.directory / "temporary")] == 1


def test_what_another_process_makes_meanwhile_is_none_of_the_service(scene: Scene) -> None:
    async def run() -> StopResult:
        group = await scene.started(api=service(scene, "nothing"))
        (scene.directory / "temporary" / "of-another").write_text("x")
        return await group.stop()

    left = asyncio.run(run()).left_behind
    assert left.things == ()
    assert left.unknown[str(scene.directory / "temporary")] == 1


def test_what_another_process_still_uses_is_no_leak(scene: Scene) -> None:
    async def run() -> StopResult:
        group = await scene.started(api=service(scene, "file"))
        path = (scene.directory / "name").read_text()
        with open(path):  # noqa: PTH123, ASYNC230
            return await group.stop()

    assert asyncio.run(run()).left_behind.things == ()


def test_in_a_folder_of_its_own_everything_new_is_the_service_s(scene: Scene) -> None:
    own = scene.directory / "own"
    own.mkdir()
    spec = service(scene, "closed", env={"TMPDIR": str(own)})
    (thing,) = left_by(scene, api=spec, kv=service(scene, "nothing")).things
    assert (thing.services, thing.why) == (("api",), "in the TMPDIR of api alone")


def test_each_service_has_its_own(scene: Scene) -> None:
    left = left_by(scene, api=service(scene, "file"), kv=service(scene, "segment"))
    assert {(thing.kind, thing.services) for thing in left.things} == {
        (LeftKind.TEMPORARY_FILE, ("api",)),
        (LeftKind.SHARED_MEMORY, ("kv",)),
    }
    for thing in left.things:
        Path(thing.name).unlink()


def test_what_is_allowed_or_off_is_not_reported(scene: Scene) -> None:
    allowed = service(scene, "file", leaks="strict", leaks_allowed=["*/kept-*"])
    off = service(scene, "file", leaks="off")
    assert left_by(scene, api=allowed).things == ()
    assert left_by(scene, api=off) == LeftBehind()


def test_what_a_service_had_when_it_died_is_found(scene: Scene) -> None:
    async def run() -> StopResult:
        group = await scene.started(api=service(scene, "segment"))
        os.kill(group.endpoint.pid, 9)
        await group.death
        return await group.stop()

    (thing,) = asyncio.run(run()).left_behind.things
    assert thing.services == ("api",)
    Path(thing.name).unlink()


def test_a_port_that_is_still_listened_on_is_found(scene: Scene) -> None:
    """The socket was handed to a process that is none of ours."""
    path = str(scene.directory / "handed")
    program = (
        "import socket, sys\n"
        "hand = socket.socket(socket.AF_UNIX); hand.bind(sys.argv[1]); hand.listen()\n"
        "print(flush=True)\n"
        "other, _ = hand.accept()\n"
        "_, kept, _, _ = socket.recv_fds(other, 9, 1)\n"
        "other.send(b'x')\n"
        "sys.stdin.read()\n"
    )
    giver = (
        "import socket, sys, time\n"
        "server = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "hand = socket.socket(socket.AF_UNIX); hand.connect(sys.argv[2])\n"
        "socket.send_fds(hand, [b'x'], [server.fileno()])\n"
        "while True: server.accept()[0].close()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as keeper:
        assert keeper.stdout
        keeper.stdout.readline()
        spec = service(scene, "nothing", command=[sys.executable, "-c", giver, "{port}", path])
        (thing,) = left_by(scene, api=spec).things
        keeper.communicate()
    assert (thing.kind, thing.services) == (LeftKind.PORT, ("api",))


def launched(directory: Path, *words: str) -> tuple[Ran, str, dict[str, Any]]:
    """A launch whose service leaves a segment; the name of that, which is removed, and the report."""
    program = [sys.executable, str(PROGRAMS / "leaves_things.py"), "{port}", "segment"]
    service = f"api={shlex.join([*program, str(directory)])}"
    options = ("--service", service, "--ready", f"api={TCP}", "--report-dir", directory / "out")
    ran = inside("launch", *options, *words, cwd=directory)
    name = (directory / "name").read_text()
    Path(name).unlink()
    return ran, name, json.loads((directory / "out" / "report.json").read_text())


def test_a_launch_shows_what_is_left(tmp_path: Path) -> None:
    ran, name, report = launched(tmp_path, "--", "true")
    assert (ran.code, report["verdict"]) == (0, "pass")
    assert [finding["rule"] for finding in report["findings"]] == ["services/left-behind"]
    assert report["findings"][0]["remedy"] == f"rm {name}"
    assert [table["title"] for table in report["tables"]] == ["Left behind"]
    assert report["facts"]["stopped"]["left_behind"]["things"][0]["name"] == name
    assert name in ran.err


def test_an_option_makes_every_service_strict_and_a_failure_of_the_command_stands(
    tmp_path: Path,
) -> None:
    for command, code in (("true", 1), ("exit 3", 3)):
        ran, _, report = launched(tmp_path, "--leaks", "strict", "--", "sh", "-c", command)
        assert (ran.code, report["verdict"]) == (code, "failed")
