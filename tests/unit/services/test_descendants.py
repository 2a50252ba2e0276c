# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.services.descendants import (
    DescendantPolicy,
    LimitWatch,
    LimitWatches,
    is_death,
    next_pause,
)
from ci_doctor.system.processes.kernel_words import MemoryEvents, locate


@pytest.mark.parametrize(
    ("policy", "returncode", "root_ended", "death"),
    [
        ("signal", -9, False, True),
        ("signal", 1, False, False),
        ("signal", 0, False, False),
        ("signal", -9, True, False),
        ("signal", None, False, False),
        ("signal", -13, False, False),
        ("exit", -9, False, True),
        ("exit", 1, False, True),
        ("exit", 0, False, False),
        ("exit", 1, True, False),
        ("exit", None, False, False),
        ("ignore", -9, False, False),
    ],
)
def test_which_end_below_a_service_is_its_death(
    policy: DescendantPolicy, returncode: int | None, root_ended: bool, death: bool
) -> None:
    assert is_death(policy, returncode, root_ended=root_ended) is death


def test_looks_come_often_while_the_tree_changes_and_seldom_when_it_is_still() -> None:
    pause = next_pause(1.0, 0.001, changed=True)
    assert pause == 0.05
    pauses = [pause := next_pause(pause, 0.001, changed=False) for _ in range(10)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1.0


def test_a_dear_look_is_taken_less_often() -> None:
    assert next_pause(10.0, 0.0005, changed=False) == pytest.approx(0.5)
    assert next_pause(10.0, 10.0, changed=False) == 2.0
    assert next_pause(0.05, 10.0, changed=False) == 0.1, (
        "but a tree that has changed is not put off at once"
    )
    assert next_pause(0.05, 0.010, changed=True) == pytest.approx(0.4)
    assert next_pause(0.05, 10.0, changed=True) == 1.0


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The host's count of OOM kills: the last entry is what is read."""
    counts = [5]

    def read(_place: object) -> MemoryEvents:
        return MemoryEvents(unlimited=True, host_kills=counts[-1])

    monkeypatch.setattr(MemoryEvents, "at", read)
    return counts


def test_a_kill_after_the_counter_grew_is_the_oom_killer_s_and_counts_once(
    kills: list[int],
) -> None:
    watch = LimitWatch()
    kills.append(6)

    first = watch.death(-signal.SIGKILL, 4096)
    second = watch.death(-signal.SIGKILL)

    assert (first.oom, first.host_oom, first.peak_rss) == ("the host", True, 4096)
    assert (second.oom, second.host_oom) == (None, False)


def test_another_end_is_not_the_oom_killer_s(kills: list[int]) -> None:
    watch = LimitWatch()
    kills.append(6)

    assert watch.death(-signal.SIGTERM).oom is None
    assert watch.death(1).oom is None


@pytest.fixture
def limited(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A cgroup below our own with one limit, where this user may make one."""
    controller, (files, value) = request.param
    place = locate("self", controller)
    if place is None:
        pytest.skip(f"no cgroup of {controller} is in view")
    folder = next(place.directories()) / f"ci-doctor-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        (folder / files[place.version - 1]).write_text(value)
        yield folder
    except OSError as error:
        pytest.skip(f"no limit can be set here: {error}")
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


# Enters a cgroup after its start, as `systemd-run` and start scripts do, and goes on when it is told to.
ENTERS = """
import os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as procs:
    procs.write("0")
print(flush=True)
input()
"""
FORKS = ENTERS + "os.fork()"
EATS = ENTERS + "b = bytearray(200_000_000); b[::4096] = b'1' * len(b[::4096])"
OF_TASKS = ("pids", (("pids.max", "pids.max"), "1"))
OF_MEMORY = ("memory", (("memory.limit_in_bytes", "memory.max"), "50000000"))


@pytest.mark.parametrize(
    ("limited", "program", "task_limit", "oom"),
    [
        pytest.param(OF_TASKS, FORKS, 1, None, id="processes"),
        pytest.param(OF_MEMORY, EATS, None, "its cgroup (limit 47 MiB)", id="memory"),
    ],
    indirect=["limited"],
)
def test_a_limit_of_a_cgroup_that_a_service_entered_after_its_start_is_told(
    limited: Path, program: str, task_limit: int | None, oom: str | None
) -> None:
    watches = LimitWatches()
    with subprocess.Popen(
        [sys.executable, "-c", program, str(limited)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as service:  # fmt: skip
        assert service.stdout is not None
        service.stdout.readline()
        watches.look(service.pid)
        service.communicate("go\n")

    death = watches.of(service.pid).death(service.returncode)

    assert (death.task_limit, death.oom) == (task_limit, oom)
    assert watches.of(1).death(service.returncode).task_limit is None
