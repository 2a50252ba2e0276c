# SPDX-License-Identifier: Apache-2.0
"""A program with a time limit, ended with all that it started."""

import contextlib
import os
import sys
from pathlib import Path

import psutil

from ci_doctor.system.processes.limited_run import LimitedRun, run_limited


def run(tmp_path: Path, code: str, timeout_s: float = 60) -> LimitedRun:
    return run_limited(
        [sys.executable, "-c", code], timeout_s=timeout_s, cwd=tmp_path, environ={**os.environ}
    )


def test_the_output_and_the_exit_code_are_kept(tmp_path: Path) -> None:
    ran = run(tmp_path, "import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)")
    assert ran.exit_code == 3
    assert set(ran.output.split()) == {"a", "b"}


def test_nothing_on_the_output_is_told_by_the_exit_code(tmp_path: Path) -> None:
    assert run(tmp_path, "import os; os._exit(4)").last_line == "exit code 4, no output"


def test_the_time_limit_ends_what_was_started_too(tmp_path: Path) -> None:
    # A shell, because it has started its child long before the limit, on any machine.
    command = ["sh", "-c", "sleep 3600 & echo $! > child; wait"]
    ran = run_limited(command, timeout_s=3, cwd=tmp_path, environ={**os.environ})
    assert ran.exit_code is None
    assert_ended(int((tmp_path / "child").read_text()))


def test_what_a_program_leaves_in_its_session_is_ended_with_it(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 3600 & echo $! > child; exit 7"]
    ran = run_limited(command, timeout_s=60, cwd=tmp_path, environ={**os.environ})
    assert ran.exit_code == 7
    assert_ended(int((tmp_path / "child").read_text()))


def assert_ended(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        # SIGKILL was sent; whoever adopted the process reaps it.
        child = psutil.Process(pid)
        if child.status() != psutil.STATUS_ZOMBIE:
            child.wait(10)


def test_a_time_limit_that_is_used_up_ends_the_program_at_once() -> None:
    ended = run_limited(["sleep", "1000"], timeout_s=-0.5, cwd=Path("/"), environ=os.environ)

    assert ended.exit_code is None
