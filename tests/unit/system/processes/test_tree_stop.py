# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from ci_doctor.system.processes.process_table import Kin, look_up
from ci_doctor.system.processes.tree_stop import (
    PoliteEnding,
    SignalMasks,
    read_masks,
    send_signal,
    stop_order,
    wait_for_all,
    wait_for_one,
)

INT, TERM = signal.SIGINT, signal.SIGTERM


def mask(*numbers: int) -> int:
    return sum(1 << (number - 1) for number in numbers)


def kin(pid: int, parent: int = 1) -> Kin:
    return Kin(pid=pid, parent=parent, started=1, state="S", threads=1, name="p")


def order(
    masks: dict[int, SignalMasks], parents: dict[int, int] | None = None, roots: Iterable[int] = ()
) -> tuple[list[int], list[int], list[int]]:
    living = [kin(pid, (parents or {}).get(pid, 1)) for pid in masks]
    lots = stop_order(living, lambda row: row.pid in roots, lambda row: masks[row.pid])
    first, helpers, deaf = ([row.pid for row in lot] for lot in lots)
    return first, helpers, deaf


@pytest.mark.parametrize(
    ("masks", "lot"),
    [
        (SignalMasks(), 0),
        (SignalMasks(caught=mask(INT, TERM)), 0),
        (SignalMasks(ignored=mask(signal.SIGHUP, signal.SIGQUIT)), 0),
        (SignalMasks(ignored=mask(INT)), 1),
        (SignalMasks(ignored=mask(TERM)), 1),
        (SignalMasks(ignored=mask(INT), caught=mask(TERM)), 0),
        (SignalMasks(ignored=mask(TERM), caught=mask(INT)), 0),
        (SignalMasks(blocked=mask(INT, TERM)), 1),
        (SignalMasks(blocked=mask(INT, TERM), caught=mask(INT)), 1),
        (SignalMasks(blocked=mask(INT), caught=mask(INT, TERM)), 0),
        (SignalMasks(ignored=mask(INT), blocked=mask(TERM)), 1),
        (SignalMasks(ignored=mask(INT, TERM)), 2),
        (SignalMasks(ignored=mask(INT, TERM), blocked=mask(INT, TERM)), 2),
    ],
)
def test_the_lot_of_a_process_goes_by_how_it_takes_the_two_signals(
    masks: SignalMasks, lot: int
) -> None:
    assert order({7: masks})[lot] == [7]


def test_a_root_is_no_helper_and_yet_may_be_deaf() -> None:
    masks = {1: SignalMasks(ignored=mask(INT)), 2: SignalMasks(ignored=mask(INT, TERM))}
    assert order(masks, roots=(1, 2)) == ([1], [], [2])


def test_the_master_of_others_that_are_asked_is_no_helper() -> None:
    half_deaf = SignalMasks(ignored=mask(INT))
    masks = {1: half_deaf, 2: half_deaf, 3: SignalMasks(), 4: half_deaf}
    assert order(masks, parents={2: 1, 3: 2}) == ([3, 1, 2], [4], [])


PROGRAM = """
import signal, sys
for word in sys.argv[1:]:
    how, name = word.split(":")
    number = signal.Signals[name]
    if how == "block":
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    else:
        signal.signal(number, signal.SIG_IGN if how == "ignore" else print)
print(flush=True)
sys.stdin.read()
"""


def test_the_masks_are_those_of_the_living_process() -> None:
    words = ["ignore:SIGINT", "block:SIGTERM", "catch:SIGUSR1"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        masks = read_masks(process.pid)
        process.communicate()
    assert masks.ignores(INT)
    assert not masks.ignores(TERM)
    assert masks.puts_off(TERM)
    assert masks.handles(signal.SIGUSR1)


def test_nobody_ignores_nothing() -> None:
    masks = read_masks(2**22 + 1)
    assert (masks.blocked, masks.ignored, masks.caught) == (0, 0, 0)


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
        earlier = Kin(
            pid=kin.pid, parent=1, started=kin.started - 1, state="S", threads=1, name=kin.name
        )
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
