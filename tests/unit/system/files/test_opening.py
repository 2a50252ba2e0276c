# SPDX-License-Identifier: Apache-2.0
"""What is no file, and streams that are closed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.system.files.access import near_path, open_file_or_pipe, read_regular


def test_a_broken_link_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to("nowhere")

    hint = near_path(tmp_path / "a.log")

    assert hint == f"`{tmp_path / 'a.log'}` is a link to `nowhere`, which leads to no file"


def test_the_name_of_a_file_that_is_there_is_no_mistyped_one(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    (tmp_path / "b.log").touch()

    assert near_path(tmp_path / "a.log") is None


def test_a_file_of_this_very_name_may_lie_where_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").touch()
    monkeypatch.chdir(tmp_path)

    assert near_path(tmp_path / "logs" / "a.log") == "did you mean `a.log`?"


def test_a_pipe_that_nobody_writes_to_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="no regular file"):
        read_regular(tmp_path / "pipe")


HOLDER = """
import fcntl, os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
descriptor = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("leased", flush=True)
signal.sigwait({signal.SIGIO})
os.close(descriptor)
"""


def test_a_file_on_which_another_program_holds_a_lease_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    words = [sys.executable, "-c", HOLDER, str(tmp_path / "file")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "leased\n"

        assert read_regular(tmp_path / "file") == b"content"

    assert holder.returncode == 0


PROGRAM = (
    "import os, sys\n"
    "from ci_doctor.system.files.access import open_closed_streams\n"
    "report = os.dup(int(sys.argv[1]))\n"
    "for word in sys.argv[2:]:\n"
    "    os.close(int(word))\n"
    "open_closed_streams()\n"
    "shown = [f'{number} {os.readlink(f\"/proc/self/fd/{number}\")}' for number in (0, 1, 2)]\n"
    "os.write(report, '\\n'.join(shown).encode())\n"
)


@pytest.mark.parametrize("closed", [[], [1], [0, 2], [0, 1, 2]])
def test_closed_streams_lead_to_dev_null_and_open_ones_stay(closed: list[int]) -> None:
    words = [sys.executable, "-c", PROGRAM, "1", *map(str, closed)]
    ran = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True, timeout=60)
    targets = dict(line.split(" ", 1) for line in ran.stdout.splitlines())
    for number in closed:
        assert targets[str(number)] == "/dev/null"
    if 1 not in closed:
        assert targets["1"].startswith("pipe:")


def test_the_pipe_of_a_shell_whose_writer_said_nothing_is_empty() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    with open_file_or_pipe(f"/proc/self/fd/{reader}") as file:
        assert file.read() == b""
    os.close(reader)
