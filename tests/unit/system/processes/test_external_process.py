# SPDX-License-Identifier: Apache-2.0
import os
import subprocess

from ci_doctor.system import clock
from ci_doctor.system.processes.external_process import ExternalProcess
from ci_doctor.system.processes.process import has_ended


def test_a_process_is_held_from_its_pid_to_its_end() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        held = ExternalProcess.open(process.pid)
        assert held is not None
        assert held.name == f"sleep (pid {process.pid})"
        assert held.started_at <= clock.now()
        assert not held.has_ended()
        process.kill()
        assert has_ended(held.pidfd, limit_s=30)
        assert held.has_ended()
        assert held.returncode() == -9
    held.close()
    held.close()


def test_how_long_a_process_has_lived_is_known() -> None:
    init = ExternalProcess.open(1)
    ours = ExternalProcess.open(os.getpid())
    assert init is not None
    assert ours is not None
    assert init.started_at <= ours.started_at
    init.close()
    ours.close()


def test_a_pid_that_nobody_has_is_none() -> None:
    assert ExternalProcess.open(2**22 + 1) is None
