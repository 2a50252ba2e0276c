# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import subprocess
from collections.abc import Iterator

import pytest

from ci_doctor.system.processes.tree import OwnTree, become_subreaper


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Those that a test starts; each must have been ended by it."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.wait(30)


def test_what_was_there_before_is_no_part_of_the_tree(
    processes: list[subprocess.Popen[bytes]],
) -> None:
    with subprocess.Popen(["sleep", "1000"]) as before:
        tree = OwnTree()
        processes.append(subprocess.Popen(["sleep", "1000"]))
        assert [kin.pid for kin in tree.living()] == [
            kin.pid for kin in tree.living(thorough=False)
        ]
        assert [kin.pid for kin in tree.kill(5).killed] == [processes[0].pid]
        assert before.poll() is None
        before.kill()


def test_below_a_process_is_itself_and_its_family(processes: list[subprocess.Popen[bytes]]) -> None:
    become_subreaper()  # what sh leaves behind stays ours
    tree = OwnTree()
    processes += [
        subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE),
        subprocess.Popen(["sleep", "1000"]),
    ]
    assert processes[0].stdout
    with processes[0].stdout as said:
        family = {processes[0].pid, int(said.readline())}
    assert {kin.pid for kin in tree.below(processes[0].pid)} == family
    assert tree.below(2**22 + 1) == ()
    assert {kin.pid for kin in tree.kill(5).killed} == {*family, processes[1].pid}


def test_more_processes_than_are_watched_at_once_are_stopped(
    processes: list[subprocess.Popen[bytes]],
) -> None:
    tree = OwnTree()
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    processes += [subprocess.Popen(["sleep", "1000"]) for _ in range(40)]
    asyncio.run(tree.terminate(30))
    assert tree.kill(5).killed == ()
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208


def test_an_empty_tree_is_stopped_at_once() -> None:
    tree = OwnTree()
    asyncio.run(tree.terminate(30))
    assert (tree.kill(5).killed, tree.kill(5).survivors) == ((), ())
