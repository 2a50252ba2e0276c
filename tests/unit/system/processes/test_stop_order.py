# SPDX-License-Identifier: Apache-2.0
import signal
import subprocess
import sys
from collections.abc import Iterable

import pytest

from ci_doctor.system.processes.process_table import Kin
from ci_doctor.system.processes.stop_order import SignalMasks, read_masks, stop_order

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
