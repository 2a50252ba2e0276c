# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs the guardian's program."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from ci_doctor.errors import InfraError
from ci_doctor.system.guardian.wire import Wire

SCARCE = (
    "see what is used up: `ulimit -n` (file descriptors), `ulimit -u` (processes), `ulimit -v` "
    "and the memory"
)
SECCOMP = "allow prctl(PR_SET_CHILD_SUBREAPER) in the container's seccomp profile"

_ROOT = Path(__file__).parents[3]
# By import and not as a script, so that it is compiled once. Our own root comes last in the path,
# so that it shadows nothing.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from ci_doctor.system.guardian.main import main; main()"
)
# What Python itself may need to start. The rest of a job's variables may be secret, and may be the
# marks by which an agent finds what it is to kill.
_KEPT = ("LD_LIBRARY_PATH",)


def launch() -> tuple[subprocess.Popen[bytes], Wire]:
    """Return a guardian that is about to be ready, and our end of the socket.

    It leads a process group of its own, so that a signal to ours does not reach it. It stays in
    our session: from another one it could not start a process in our group (setpgid(2)).
    Raises InfraError if the system lets us start none.
    """
    try:
        ours, its = socket.socketpair()
        with its:
            try:
                return _run(its.fileno()), Wire(ours)
            except OSError:
                ours.close()
                raise
    except OSError as error:
        raise InfraError(
            f"cannot start the guardian process: {error.strerror}", hint=SCARCE
        ) from error


def _run(channel: int) -> subprocess.Popen[bytes]:
    doctor = os.pidfd_open(os.getpid())
    try:
        # -I -S: without site-packages, whose .pth files could run any code in the guardian.
        python = [sys.executable, "-I", "-S", "-c", _PROGRAM]
        arguments = [str(_ROOT), str(channel), str(doctor), str(os.getpid())]
        return subprocess.Popen(
            [*python, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(channel, doctor),
            cwd="/",
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
            process_group=0,
        )
    finally:
        os.close(doctor)
