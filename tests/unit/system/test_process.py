# SPDX-License-Identifier: Apache-2.0
import os
import select
import sys
from pathlib import Path

import pytest

from ci_doctor.system.process import Child, describe_exit, start


def run(directory: Path, program: str, environment: dict[str, str] | None = None) -> tuple[Child, Path]:
    log = directory / "log"
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    try:
        words = [sys.executable, "-c", program]
        return start(words, environment=environment or {}, directory=directory, output=output), log
    finally:
        os.close(output)


def ended(child: Child) -> int:
    select.select([child.pidfd], [], [], 30)
    child.close()
    return child.wait()


@pytest.mark.parametrize(
    ("returncode", "words"),
    [(0, "exit code 0"), (3, "exit code 3"), (-9, "killed by SIGKILL (9)"), (-40, "killed by signal 40 (40)")],
)
def test_an_exit_is_told_in_words(returncode: int, words: str) -> None:
    assert describe_exit(returncode) == words


def test_a_child_leads_a_session_of_its_own_and_has_nothing_to_read(tmp_path: Path) -> None:
    child, log = run(tmp_path, "import os, sys; print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()))")
    assert ended(child) == 0
    assert log.read_text() == "True ''\n"


def test_a_child_has_only_the_environment_that_it_is_given(tmp_path: Path) -> None:
    child, log = run(tmp_path, "import os; print(os.environ.get('A'), 'HOME' in os.environ)", {"A": "1"})
    assert ended(child) == 0
    assert log.read_text() == "1 False\n"


def test_both_streams_go_to_the_log(tmp_path: Path) -> None:
    child, log = run(tmp_path, "import os; os.write(1, b'out '); os.write(2, b'err')")
    assert ended(child) == 0
    assert log.read_text() == "out err"


def test_a_child_runs_in_its_folder_and_its_code_is_handed_out(tmp_path: Path) -> None:
    child, log = run(tmp_path, "import os; print(os.getcwd(), flush=True); os._exit(7)")
    assert ended(child) == 7
    assert child.returncode() == 7
    assert log.read_text() == f"{tmp_path}\n"


def test_closing_twice_closes_no_stranger(tmp_path: Path) -> None:
    child, _ = run(tmp_path, "pass")
    ended(child)
    with (tmp_path / "other").open("w") as other:  # takes the number that the pidfd had
        child.close()
        other.write("still open")


def test_a_command_that_cannot_run_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        start([str(tmp_path / "none")], environment={}, directory=tmp_path, output=2)
