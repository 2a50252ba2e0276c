# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import Interruption, signals_noted
from tests.support.cli import environment

pytestmark = pytest.mark.integration


def send(number: signal.Signals) -> None:
    """To ourselves: the handler has run when this returns."""
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_cancels_what_is_watched_and_is_remembered(number: signal.Signals) -> None:
    async def run(interruption: Interruption) -> None:
        with interruption.watch():
            send(number)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(30)

    interruption = Interruption()
    before = signal.getsignal(number)
    with interruption.handling():
        asyncio.run(run(interruption))
    assert interruption.received is number
    assert signal.getsignal(number) is before


def test_the_first_signal_is_the_one_that_is_remembered() -> None:
    interruption = Interruption()
    with interruption.handling():
        send(signal.SIGTERM)
        send(signal.SIGINT)
    assert interruption.received is signal.SIGTERM


def test_a_signal_from_before_cancels_at_once() -> None:
    async def run() -> None:
        with interruption.watch(), pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(30)

    interruption = Interruption()
    with interruption.handling():
        send(signal.SIGINT)
        asyncio.run(run())


def test_one_wish_heard_twice_is_one_and_a_later_one_is_another() -> None:
    cancelled = 0

    async def run() -> None:
        nonlocal cancelled
        with interruption.watch():
            send(signal.SIGTERM)
            send(signal.SIGTERM)  # as timeout(1) does
            began = clock.now()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(30)
            cancelled = 1
            await asyncio.sleep(0.02)
            assert clock.now() - began >= 0.02
            send(signal.SIGTERM)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(30)
            cancelled = 2

    interruption = Interruption()
    with interruption.handling():
        asyncio.run(run())
    assert cancelled == 2


def test_nothing_is_heard_while_deaf() -> None:
    with signals_noted():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            send(number)


def test_a_hangup_that_nohup_has_ignored_stays_ignored() -> None:
    program = textwrap.dedent("""
        import os, signal
        from ci_doctor.system.processes.interruption import Interruption
        interruption = Interruption()
        with interruption.handling():
            os.kill(os.getpid(), signal.SIGHUP)
        assert interruption.received is None
    """)
    ran = subprocess.run(
        ["nohup", sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
