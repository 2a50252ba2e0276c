# SPDX-License-Identifier: Apache-2.0
"""The processes of a script, its listeners and refused connections, as the kernel shows them by changes."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_doctor.system import clock
from ci_doctor.system.processes.listeners import Refusals
from ci_doctor.system.processes.process import has_ended
from ci_doctor.system.processes.process_table import Kin, look_up, read_table
from ci_doctor.watch.tree import Listening, ScriptTree, _content

if TYPE_CHECKING:
    from ci_doctor.watch.judging import Listener

pytestmark = pytest.mark.integration
PATIENCE_S = 60.0


def tree_of(process: "subprocess.Popen[bytes]") -> ScriptTree:
    return ScriptTree(process.pid, frozenset(), lambda _: None, lambda _: None)


def until(holds: Callable[[], bool]) -> None:
    limit = clock.now() + PATIENCE_S
    while not holds():
        assert clock.now() < limit
        select.select([], [], [], 0.01)


def test_a_process_that_is_there_is_seen_with_its_words_and_its_end(tmp_path: Path) -> None:
    words = ["sh", "-c", "sleep 60 > log & read -r _; exit 3"]
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE) as process:
        tree = tree_of(process)
        until(lambda: bool(tree.look()) or len(tree.living) > 1)
        until(
            lambda: (
                not tree.look() and any(each.program == "sleep" for each in tree.living.values())
            )
        )
        sleeping = next(each for each in tree.living.values() if each.program == "sleep")
        assert sleeping.parent is tree.root
        assert sleeping.log == f"{tmp_path}/log"

        os.kill(sleeping.pid, signal.SIGKILL)
        assert has_ended(sleeping.pidfd, PATIENCE_S)
        tree.end(sleeping)
        assert sleeping.pid not in tree.living
        assert sleeping.returncode in {-signal.SIGKILL, None}, "never guessed"
        tree.close()
        process.kill()


def test_one_that_has_ended_and_is_not_waited_for_is_no_new_process(tmp_path: Path) -> None:
    program = "import subprocess, sys; p = subprocess.Popen(['true']); print(p.pid, flush=True); sys.stdin.read()"
    words = [sys.executable, "-S", "-c", program]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        until(lambda: "(true) Z" in Path(f"/proc/{pid}/stat").read_text())
        tree = tree_of(process)
        # What other tests left may have come to us as its subreaper.
        assert process.pid in tree.living
        assert pid not in tree.living
        tree.close()


def test_one_that_ends_while_it_is_looked_at_does_not_live_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ci_doctor.watch.tree._ALL_S", 1e9)  # no second look at all of them
    text = "sleep 60 & echo $!; wait; read -r _"
    with subprocess.Popen(
        ["bash", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())

        def table_and_end() -> list[Kin]:
            table = list(read_table())
            os.kill(pid, signal.SIGKILL)
            until(lambda: look_up(pid) is None)
            return table

        monkeypatch.setattr("ci_doctor.watch.tree.read_table", table_and_end)
        tree = tree_of(process)

        assert pid in {each.pid for each in tree.take_ended()}
        assert pid not in tree.living
        tree.close()
        process.kill()


def test_a_subshell_that_becomes_another_program_later_is_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_doctor.watch.tree._ALL_S", 1e9)  # no look at all of them in between
    text = "( read -r _ <&3; exec sleep 60 ) & read -r _"
    reader, writer = os.pipe()
    with subprocess.Popen(
        ["bash", "-c", f"exec 3<&{reader}; {text}"], stdin=subprocess.PIPE, pass_fds=[reader]
    ) as process:
        tree = tree_of(process)
        until(
            lambda: (
                not tree.look() and any(each.parent is tree.root for each in tree.living.values())
            )
        )
        # Others may have come to us from other tests, as their subreaper.
        subshell = next(each for each in tree.living.values() if each.parent is tree.root)
        settled: list[object] = []

        def is_settled() -> bool:
            tree.look()
            settled.extend(tree.take_settled())
            return subshell in settled

        until(is_settled)
        assert subshell.is_copy
        # As a look in the midst of execve(2) reads it.
        blank = [f"/proc/{subshell.pid}/cmdline"]

        def content(path: str) -> bytes:
            kin = look_up(subshell.pid)
            is_blank = path in blank and kin is not None and kin.name == "sleep"
            return b"" if is_blank and blank.pop() else _content(path)

        monkeypatch.setattr("ci_doctor.watch.tree._content", content)
        os.write(writer, b"\n")
        until(lambda: not tree.look() and subshell.program == "sleep")
        os.kill(subshell.pid, signal.SIGKILL)
        tree.close()
    os.close(reader)
    os.close(writer)


def test_a_look_is_cheap_if_nothing_has_changed() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        tree = tree_of(process)
        seen = tree.look()
        process.kill()

    assert seen == []
    assert tree.root.program == "sleep"
    tree.close()


def test_who_listens_is_the_one_that_has_handed_the_socket_down() -> None:
    program = "import os, socket, sys; s = socket.create_server(('127.0.0.1', 0)); pid = os.fork(); pid and print(s.getsockname()[1], flush=True); sys.stdin.read()"
    listening = Listening()
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        tree = tree_of(process)
        found: list[Listener] = []

        def is_found() -> bool:
            tree.look()
            found.extend(listening.look(tree, clock.now())[0])
            return any(each.port == port for each in found)

        until(is_found)
        process.stdin.close()  # type: ignore[union-attr]

    ours = next(each for each in found if each.port == port)
    assert ours.owner is tree.root
    assert port in tree.root.ports
    until(lambda: port in {each.port for each in listening.look(tree, clock.now())[1]})
    tree.close()


def test_refused_connections_are_told_with_their_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    refusals = Refusals()
    if not refusals.is_known:
        pytest.skip("this kernel does not tell")
    told: list[int] = []
    with socket.socket() as client:
        client.settimeout(5)  # not blocking: the kernel keeps the port
        assert client.connect_ex(("127.0.0.1", port)) != 0

    def is_told() -> bool:
        told.extend(refusals.read())
        return port in told

    until(is_told)
    refusals.close()
