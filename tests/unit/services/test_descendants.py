# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys

import pytest

from ci_doctor.services.descendants import DescendantPolicy, OomWatch, is_death, next_pause
from ci_doctor.system.processes.kernel_words import MemoryEvents
from ci_doctor.system.processes.process_table import ChildrenLook, NewestPid, children_of


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


def test_both_ways_to_look_see_the_same_children() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in ChildrenLook(listed=True).of(os.getpid())
        assert child.pid in ChildrenLook(listed=False).of(os.getpid())
    finally:
        child.communicate()
    assert child.pid not in children_of(os.getpid())
    assert children_of(child.pid) == []


def test_a_birth_is_seen_by_the_newest_pid() -> None:
    newest = NewestPid()
    before = newest.read()
    assert before is not None
    subprocess.run(["true"], check=True)
    assert newest.read() != before
    newest.close()


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The host's count of OOM kills: the last entry is what is read."""
    counts = [5]

    def read(_pid: object = "self") -> MemoryEvents:
        return MemoryEvents(unlimited=True, host_kills=counts[-1])

    monkeypatch.setattr(MemoryEvents, "read", read)
    return counts


def test_a_kill_after_the_counter_grew_is_the_oom_killer_s_and_counts_once(
    kills: list[int],
) -> None:
    watch = OomWatch()
    kills.append(6)

    first = watch.death(-signal.SIGKILL, 4096)
    second = watch.death(-signal.SIGKILL)

    assert (first.oom, first.host_oom, first.peak_rss) == ("the host", True, 4096)
    assert (second.oom, second.host_oom) == (None, False)


def test_another_end_is_not_the_oom_killer_s(kills: list[int]) -> None:
    watch = OomWatch()
    kills.append(6)

    assert watch.death(-signal.SIGTERM).oom is None
    assert watch.death(1).oom is None
