# SPDX-License-Identifier: Apache-2.0
"""Files that another process holds a lease on, and what is no file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.system.files.opening import read_regular
from tests.support.cli import BARE

# Lets go as soon as somebody opens the file.
HOLDER = """
import fcntl, os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
signal.sigwait([signal.SIGIO])
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
"""


@pytest.mark.parametrize("follow", [True, False])
def test_a_file_under_a_lease_is_read_when_the_lease_is_over(tmp_path: Path, follow: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with subprocess.Popen([*BARE, "-c", HOLDER, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"

        content = read_regular(path, follow=follow)

    assert (content, holder.returncode) == (b"content", 0)


def test_a_pipe_that_nobody_writes_to_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="no regular file"):
        read_regular(tmp_path / "pipe")


PROGRAM = (
    "import os, sys\n"
    "from ci_doctor.system.files.opening import open_closed_streams\n"
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
