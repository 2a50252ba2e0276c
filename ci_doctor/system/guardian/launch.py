# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs the guardian's program."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from ci_doctor.errors import InfraError
from ci_doctor.system.guardian.wire import Wire

SCARCE = "see what is used up: `ulimit -n` (file descriptors), `ulimit -u` (processes), `ulimit -v` and the memory"
SECCOMP = "allow prctl(PR_SET_CHILD_SUBREAPER) in the container's seccomp profile"

_ROOT = Path(__file__).parents[3]
# By import and not as a script, so that it is compiled once; our own root comes last, so that it shadows nothing.
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from ci_doctor.system.guardian.main import main; main()"
# What Python itself may need to start; nothing else of a job, whose variables may be secret, and mark what is to be killed.
_KEPT = ("LD_LIBRARY_PATH",)


def launch() -> tuple[subprocess.Popen[bytes], Wire]:
    """A guardian that is about to be ready, and our end of the socket. Raises InfraError where there can be none.

    It leads a process group of its own, so that a signal to ours misses it, and stays in our session: from another
    one it could not start a process in our group.
    """
    doctor = -1
    try:
        ours, its = socket.socketpair()
        with its:
            try:
                doctor = os.pidfd_open(os.getpid())
                return _run(its.fileno(), doctor), Wire(ours)
            except OSError:
                ours.close()
                raise
            finally:
                if doctor >= 0:
                    os.close(doctor)
    except OSError as error:
        raise InfraError(
            f"cannot start the guardian process: {error.strerror}", hint=SCARCE
        ) from error


def _run(channel: int, doctor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            _PROGRAM,
            str(_ROOT),
            str(channel),
            str(doctor),
            str(os.getpid()),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(channel, doctor),
        cwd="/",
        env={name: os.environ[name] for name in _KEPT if name in os.environ},
        process_group=0,
    )
