# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import pytest

from tests.support.cli import environment

pytestmark = pytest.mark.integration

# A process group of its own, with a command in it that ignores what is sent.
PROGRAM = """
import os, signal, subprocess
from ci_doctor.system.relay import RELAYED
from ci_doctor.system.relay import GroupProbe

for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGWINCH):
    signal.signal(number, lambda *_: None)
ignores = "trap '' USR1 TERM; echo ready; exec sleep 600"
command = subprocess.Popen(["sh", "-c", ignores], stdout=subprocess.PIPE)
command.stdout.readline()
with GroupProbe(command.pid, RELAYED) as probe:
    os.kill(os.getpid(), signal.SIGUSR1)
    print("alone", probe.has_got(signal.SIGUSR1))
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGWINCH):
        os.killpg(0, number)
    print("all", *map(probe.has_got, (signal.SIGWINCH, signal.SIGTERM, signal.SIGUSR1)))
    print("again", probe.has_got(signal.SIGUSR1))
    os.kill(probe._pid, signal.SIGSTOP)
    os.killpg(0, signal.SIGTERM)
    print("stopped", probe.has_got(signal.SIGTERM))
    os.kill(probe._pid, signal.SIGCONT)
    os.kill(os.getpid(), signal.SIGTERM)
    print("late", probe.has_got(signal.SIGTERM))
print("over", command.poll())
command.kill()
command.wait()
"""


def test_it_tells_a_signal_to_the_group_from_one_to_us_alone() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment(),
        capture_output=True,
        text=True,
        start_new_session=True,
        check=True,
    )

    assert ran.stdout.splitlines() == [
        "alone False",
        "all True True True",
        "again False",
        "stopped True",
        "late False",
        "over None",
    ]
