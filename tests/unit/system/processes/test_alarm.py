# SPDX-License-Identifier: Apache-2.0
"""Work in this process that ends in time, also while it waits."""

import os
import signal
from pathlib import Path

import pytest

from ci_doctor.system.processes.alarm import TimeIsUp, time_limit


def test_a_call_that_waits_is_ended(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(TimeIsUp), time_limit(0.02):
        pipe.read_bytes()

    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_work_that_ends_in_time_is_left_alone() -> None:
    before = signal.getsignal(signal.SIGALRM)

    with time_limit(60.0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0

    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) is before
