# SPDX-License-Identifier: Apache-2.0
"""Work in this process that ends in time, also while it waits."""

import concurrent.futures
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.system.processes.limited_runs import (
    BegunCall,
    ForkedCall,
    TimedOut,
    TimeIsUp,
    bounded,
    run_limited,
    time_limit,
)
from ci_doctor.system.processes.process_table import look_up


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


def test_the_functions_value_is_returned() -> None:
    assert bounded(lambda: 7, 60.0) == 7
    assert bounded(lambda: None, 60.0) is None


def test_the_functions_error_is_raised() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        bounded(fail, 60.0)


def test_a_result_that_comes_as_the_time_ends_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(concurrent.futures.Future[int]):
        def result(self, timeout: float | None = None) -> int:
            value = super().result()
            if timeout is not None:
                raise TimeoutError
            return value

    monkeypatch.setattr(concurrent.futures, "Future", Late)
    assert BegunCall(lambda: 7).result(60.0) == 7


def test_a_function_that_hangs_is_left_behind() -> None:
    never = threading.Event()

    with pytest.raises(TimedOut, match=r"no answer within 0.01 s"):
        bounded(never.wait, 0.01)
    never.set()


def test_a_begun_call_goes_on_while_nobody_waits_for_it() -> None:
    may_end = threading.Event()
    call = BegunCall(lambda: may_end.wait(60.0))

    may_end.set()

    assert call.result() is True


def test_without_a_thread_the_function_is_called_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert bounded(lambda: 7, 60.0) == 7


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of other tests hold no lock that a copy needs."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)


def begun(function: Callable[[], bytes]) -> ForkedCall:
    call = ForkedCall.begin(function)
    assert call is not None
    return call


def test_a_function_is_called_beside_us_and_its_result_comes_back() -> None:
    own = os.getpid()

    pid = int(begun(lambda: str(os.getpid()).encode()).result(60))

    assert pid != own
    assert look_up(pid) is None, "it has been reaped"


def test_what_raises_has_no_result() -> None:
    assert begun(lambda: b"%d" % (1 // 0)).result(60) == b""


def test_one_that_hangs_is_killed_with_the_programs_that_it_runs(tmp_path: Path) -> None:
    note = tmp_path / "note"
    program = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"

    def hang() -> bytes:
        words = [sys.executable, "-c", program]
        run_limited(words, timeout_s=600, cwd=tmp_path, environ=os.environ)
        return b"done"

    call = begun(hang)
    deadline = time.monotonic() + 60
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        os.sched_yield()
    with pytest.raises(TimedOut):
        call.result(0.0)

    kin = look_up(int(note.read_text()))
    while kin is not None and not kin.ended and time.monotonic() < deadline:
        kin = look_up(kin.pid)
    assert kin is None or kin.ended


def test_it_holds_no_file_of_ours(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    with (tmp_path / "lock").open() as lock:
        number = lock.fileno()
        is_open = begun(lambda: b"%d" % Path(f"/proc/self/fd/{number}").exists()).result(60)
    assert is_open == b"0"
