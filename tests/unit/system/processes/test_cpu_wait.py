# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.system.processes.cpu_wait import CpuWaits, extended


@pytest.mark.parametrize(
    ("limit_s", "waited_s", "extended_s"),
    [
        (4.0, 0.0, 4.0),
        (4.0, 0.01, 4.0),  # as on a quiet machine
        (4.0, 3.0, 7.0),
        (4.0, 1000.0, 34.0),
        (600.0, 1000.0, 1200.0),
    ],
)
def test_a_limit_grows_by_what_was_waited_for_a_cpu_up_to_a_bound(
    limit_s: float, waited_s: float, extended_s: float
) -> None:
    assert extended(limit_s, waited_s) == extended_s


SPIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); print(flush=True)\nwhile True: pass"


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not count")
def test_who_shares_a_cpu_waits_for_it() -> None:
    cpu = str(min(os.sched_getaffinity(0)))
    words = [sys.executable, "-c", SPIN, cpu]
    spinning = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for process in spinning:
            assert process.stdout is not None
            process.stdout.readline()
        waits = CpuWaits(lambda: [process.pid for process in spinning])
        before = waits.now()
        used = _cpu_s(spinning[0].pid)
        while _cpu_s(spinning[0].pid) < used + 0.1:
            pass
        # Whenever one of them runs, the other waits.
        assert waits.since(before) >= 0.05
    finally:
        for process in spinning:
            process.kill()
            process.communicate()


def test_who_is_gone_waits_for_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert CpuWaits(lambda: [process.pid]).now() == {}


def test_no_file_descriptor_left_is_no_wait() -> None:
    def pids() -> list[int]:
        raise OSError

    assert CpuWaits(pids).since({}) == 0


def _cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def test_a_reading_is_used_again_while_it_is_young_enough() -> None:
    readings: list[None] = []

    def pids() -> list[int]:
        readings.append(None)
        return [os.getpid()]

    waits = CpuWaits(pids)
    assert waits.now(oldest_s=1000.0) is waits.now(oldest_s=1000.0)
    assert len(readings) == 1
    waits.now()
    assert len(readings) == 2
