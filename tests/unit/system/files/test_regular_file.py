# SPDX-License-Identifier: Apache-2.0
"""Files that another process holds a lease on, and what is no file."""

import os
import subprocess
from pathlib import Path

import pytest

from ci_doctor.system.files.regular_file import read_regular
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
