# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from ci_doctor.system.processes.process_table import Kin, look_up
from ci_doctor.system.processes.signalling import (
    PoliteEnding,
    send_signal,
    wait_for_all,
    wait_for_one,
)

IGNORING = (
    "import signal, sys, time\n"
    "for name in sys.argv[1:]:\n"
    "    signal.signal(signal.Signals[name], signal.SIG_IGN)\n"
    "print(flush=True)\n"
    "time.sleep(1000)\n"
)


@contextmanager
def ignoring(*names: str) -> Iterator[tuple[subprocess.Popen[str], Kin]]:
    """A process that ignores these signals."""
    command = [sys.executable, "-c", IGNORING, *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        kin = look_up(process.pid)
        assert kin is not None
        try:
            yield process, kin
        finally:
            process.kill()


def test_a_later_process_with_the_same_pid_gets_no_signal() -> None:
    with ignoring() as (process, kin):
        earlier = msgspec.structs.replace(kin, started=kin.started - 1)
        assert not send_signal(earlier, signal.SIGKILL)
        assert process.poll() is None
        assert send_signal(kin, signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL


def test_a_process_that_is_gone_gets_no_signal() -> None:
    with ignoring() as (process, kin):
        process.kill()
        process.wait(30)
        assert not send_signal(kin, signal.SIGTERM)


def test_each_is_asked_by_the_gentlest_signal_that_it_does_not_ignore() -> None:
    ending = PoliteEnding()
    with ignoring("SIGINT") as (_, kin):
        assert ending.ask(kin, signal.SIGINT) is signal.SIGTERM
        assert ending.ask(kin, signal.SIGINT) is None
        assert ending.ask(kin, signal.SIGTERM) is None
    with ignoring("SIGINT", "SIGTERM") as (_, kin):
        assert ending.ask(kin, signal.SIGINT) is None, "there is nothing to ask it by"
        assert not ending.has_asked(kin)
    with ignoring("SIGTERM") as (_, kin):
        assert ending.ask(kin, signal.SIGINT) is signal.SIGINT
        assert ending.ask(kin, signal.SIGTERM) is None, "it ends by itself"
    with ignoring("SIGTERM") as (_, kin):
        assert PoliteEnding().ask(kin, signal.SIGTERM) is signal.SIGINT, "one that came late"


def test_waiting_ends_with_the_processes_and_leaves_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with ignoring() as (first, one), ignoring() as (second, other):
        first.kill()
        wait_for_one([one, other], 30)
        second.kill()
        asyncio.run(wait_for_all([one, other], 30))
        assert (first.wait(0), second.wait(0)) == (-signal.SIGKILL, -signal.SIGKILL)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
