# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of a command that a signal ended."""

import pytest

from ci_doctor.system.processes.kernel_words import KernelBefore, counted, lines_since
from ci_doctor.system.processes.memory_events import Level, MemoryEvents

GIB = 2**30
QUIET = MemoryEvents(levels=(Level(kills=2, hit=2, limit=8 * GIB),))
KILLED = MemoryEvents(levels=(Level(kills=3, hit=3, limit=8 * GIB),))
KILL = "Out of memory: Killed process 4711 (python3) total-vm:9000kB"
CGROUP_KILL = "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:9000kB"
FAULT = "python3[4711]: segfault at 0 ip 00007f sp 00007f error 4 in libtorch_cpu.so[7f+1000]"


def test_a_kill_that_the_kernel_counted_is_said_with_whose_memory_it_was() -> None:
    assert "killed a process here for lack of memory: that of its cgroup (limit 8 GiB)" in counted(
        QUIET, KILLED
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (QUIET, QUIET),
        (KILLED, KILLED),
        (MemoryEvents(), MemoryEvents()),
        (MemoryEvents(unlimited=True, host_kills=4), MemoryEvents(unlimited=True, host_kills=4)),
        (QUIET, MemoryEvents()),
    ],
)
def test_without_a_new_kill_none_is_claimed(before: MemoryEvents, after: MemoryEvents) -> None:
    assert "killed a process" not in counted(before, after)


@pytest.mark.parametrize("text", [KILL, CGROUP_KILL, FAULT])
def test_lines_of_the_kernels_log_count_from_the_commands_begin(text: str) -> None:
    log = f"6,1,90000000,-;{text}\n6,2,120500000,-;{text} later\n[  121.25] {text} last\n"

    assert list(lines_since(log, 100.0)) == [f"{text} later", f"{text} last"]


@pytest.mark.parametrize(
    "line", [f"Nov 24 03:44:17 host kernel: {KILL}", "6,1,120500000,-;eth0: up"]
)
def test_a_line_without_a_time_or_about_something_else_is_none(line: str) -> None:
    assert list(lines_since(line, 100.0)) == []


def test_the_kernel_is_asked_and_its_silence_is_said() -> None:
    sentences = KernelBefore.read().since()

    assert sentences
    assert all("kernel" in each for each in sentences)
