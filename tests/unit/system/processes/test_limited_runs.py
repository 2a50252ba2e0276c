# SPDX-License-Identifier: Apache-2.0
"""A program with a time limit, ended with all that it started."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psutil
import pytest

from ci_doctor.system.processes.limited_runs import (
    LimitedRuns,
    SeparateRun,
    run_limited,
)


def run_one(tmp_path: Path, code: str) -> SeparateRun:
    return run_limited(
        [sys.executable, "-c", code], timeout_s=60, cwd=tmp_path, environ={**os.environ}
    )


def test_the_output_and_the_exit_code_are_kept(tmp_path: Path) -> None:
    ran = run_one(tmp_path, "import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)")
    assert ran.exit_code == 3
    assert set(ran.stdout.split()) == {"a", "b"}


def test_nothing_on_the_output_is_told_by_the_exit_code(tmp_path: Path) -> None:
    assert run_one(tmp_path, "import os; os._exit(4)").last_words == "exit code 4, no output"


def test_a_time_limit_that_is_used_up_ends_the_program_at_once() -> None:
    ended = run_limited(["sleep", "1000"], timeout_s=-0.5, cwd=Path("/"), environ=os.environ)

    assert ended.exit_code is None


BARE = (sys.executable, "-S", "-c")
SLEEP = "import time; time.sleep(600)"


def run(
    program: str,
    *,
    timeout_s: float = 60.0,
    last_signal: signal.Signals | None = None,
    environ: dict[str, str] | None = None,
) -> SeparateRun:
    return LimitedRuns().run(
        (*BARE, program),
        cwd=Path.cwd(),
        environ=os.environ if environ is None else environ,
        timeout_s=timeout_s,
        last_signal=last_signal,
    )


def run_into_the_limit(
    program: str,
    *,
    last_signal: signal.Signals | None = None,
    environ: dict[str, str] | None = None,
) -> SeparateRun:
    """A run that a limit ended, and that had the time to print: on a busy machine it needs more."""
    timeout_s = 0.2
    while True:
        ran = run(program, timeout_s=timeout_s, last_signal=last_signal, environ=environ)
        assert ran.exit_code is None
        if ran.stdout:
            return ran
        timeout_s *= 2


def test_stdout_and_stderr_are_kept_apart_with_the_exit_code() -> None:
    ran = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")

    assert (ran.exit_code, ran.stdout, ran.stderr) == (3, "out\n", "err\n")
    assert ran.last_words == "err"


def test_a_signal_is_a_negative_exit_code() -> None:
    assert run("import os; os.kill(os.getpid(), 9)").exit_code == -signal.SIGKILL


def test_of_a_flood_the_end_is_kept() -> None:
    ran = run("import os\nfor _ in range(18): os.write(1, bytes(1 << 20))\nos.write(1, b'end')")

    assert len(ran.stdout) == 16 << 20
    assert ran.stdout.endswith("end")


def test_a_program_gets_its_environment_and_nothing_on_stdin() -> None:
    ran = run("import os, sys; print(os.environ['A'], repr(sys.stdin.read()))", environ={"A": "b"})

    assert ran.stdout == "b ''\n"


def test_a_program_that_cannot_be_started_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LimitedRuns().run(("/no/such/program",), cwd=tmp_path, environ={})


def test_a_time_limit_ends_the_program_and_what_it_has_started() -> None:
    ran = run_into_the_limit(
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {SLEEP!r}])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )

    assert_gone(int(ran.stdout))


def test_a_program_that_ends_leaves_nothing_in_its_session() -> None:
    ran = run(
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {SLEEP!r}])\n"
        "print(child.pid, flush=True)"
    )

    assert ran.exit_code == 0
    assert_gone(int(ran.stdout))


def test_a_last_signal_lets_a_python_say_where_it_hangs() -> None:
    ran = run_into_the_limit(
        f"def hangs():\n  print(1, flush=True)\n  {SLEEP}\nhangs()",
        last_signal=signal.SIGABRT,
        environ={"PYTHONFAULTHANDLER": "1"},
    )

    assert "in hangs" in ran.stderr


def test_a_program_that_ignores_its_last_signal_is_killed() -> None:
    ran = run_into_the_limit(
        "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"print(os.getpid(), flush=True)\n{SLEEP}",
        last_signal=signal.SIGTERM,
    )

    assert not psutil.pid_exists(int(ran.stdout))


def test_a_stop_ends_what_runs_in_other_threads_and_lets_nothing_start() -> None:
    runs = LimitedRuns()
    ended: list[SeparateRun] = []

    def sleep() -> None:
        ended.append(runs.run((*BARE, SLEEP), cwd=Path.cwd(), environ=os.environ))

    threads = [threading.Thread(target=sleep) for _ in range(2)]
    for thread in threads:
        thread.start()
    while len(runs.pids()) < len(threads):
        pass

    assert all(SLEEP in (runs.running_in(thread.ident or 0) or "") for thread in threads)
    runs.stop()
    for thread in threads:
        thread.join(60)

    assert [ran.exit_code for ran in ended] == [-signal.SIGKILL] * 2
    with pytest.raises(InterruptedError):
        runs.run((*BARE, "pass"), cwd=Path.cwd(), environ=os.environ)


def assert_gone(pid: int) -> None:
    """The process ends; it is not our child, so that its entry may stay until init reaps it."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(descriptor, "rb") as process:
        ready, _, _ = select.select([process], [], [], 60)
    assert ready


def test_a_program_runs_where_no_temporary_directory_can_be_written_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))

    ended = LimitedRuns().run(["sh", "-c", "echo said; echo warned >&2"], cwd=Path(), environ={})

    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "said\n", "warned\n")


AS_NOBODY = """
import os, sys, threading
from pathlib import Path
from ci_doctor.system.processes.limited_runs import LimitedRuns
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
runs = LimitedRuns()
def run(limit_s, *words):
    return runs.run([sys.argv[1], "--reuid=0", *words], cwd=Path("/"), environ=os.environ, timeout_s=limit_s)
ended = run(60, "sh", "-c", "id -u; exit 3")
late = run(1, "sh", "-c", "echo $$ > " + sys.argv[2] + "; exec sleep 60")
print(ended.exit_code, ended.stdout.strip(), late.exit_code)
runs.stop()
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can make such a program"
)
def test_a_program_of_another_user_such_as_sudo_ends_as_it_does_and_holds_up_nobody() -> None:
    source = shutil.which("setpriv")
    assert source is not None
    with tempfile.TemporaryDirectory() as folder:
        sudo = Path(shutil.copy(source, folder))
        # It makes anybody root, so nobody but that group may reach it.
        for path, mode in ((Path(folder), 0o710), (sudo, 0o4710)):
            os.chown(path, 0, 65534)
            path.chmod(mode)
        started = Path(folder, "pid")
        ran = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, sudo, started],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if started.exists():
            os.kill(int(started.read_text()), signal.SIGKILL)

    assert ran.stdout == "3 0 None\n"
