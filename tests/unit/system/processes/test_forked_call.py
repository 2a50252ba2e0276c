# SPDX-License-Identifier: Apache-2.0
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.system.begun_call import TimedOut
from ci_doctor.system.processes.forked_call import ForkedCall
from ci_doctor.system.processes.limited_run import run_limited
from ci_doctor.system.processes.process_table import look_up


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
