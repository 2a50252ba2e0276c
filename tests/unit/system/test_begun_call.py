# SPDX-License-Identifier: Apache-2.0
import threading

import pytest

from ci_doctor.system.begun_call import BegunCall, TimedOut, bounded


def test_the_functions_value_is_returned() -> None:
    assert bounded(lambda: 7, 60.0) == 7
    assert bounded(lambda: None, 60.0) is None


def test_the_functions_error_is_raised() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        bounded(fail, 60.0)


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
