# SPDX-License-Identifier: Apache-2.0
"""Makes processes as stdin says, a line each, and answers with the pid: `child`, `grandchild`, `thread`, `orphan`,
`session-orphan`, `bound` (dies with us, by PR_SET_PDEATHSIG), `brief` (exits 3 at once); `reap` waits for all dead.

They end by SIGUSR1 with exit code 3, take the name `renamed` by SIGUSR2, and end by any other signal.
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
from pathlib import Path

reading, writing = os.pipe()


def live() -> None:
    """As a process of its own: say who we are, and wait for the end."""
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(3))
    signal.signal(signal.SIGUSR2, lambda *_: Path("/proc/self/comm").write_text("renamed"))
    os.write(writing, f"{os.getpid()}\n".encode())
    while True:
        signal.pause()


def fork_once() -> None:
    if os.fork() == 0:
        live()


def fork_from_thread() -> None:
    def body() -> None:
        fork_once()
        threading.Event().wait()

    threading.Thread(target=body, daemon=True).start()


def fork_twice(*, stay: bool, own_session: bool = False) -> None:
    pid = os.fork()
    if pid == 0:
        if own_session:
            os.setsid()
        fork_once()
        while stay:
            signal.pause()
        os._exit(0)
    if not stay:
        os.waitpid(pid, 0)


def fork_bound() -> None:
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
        live()


def fork_brief() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it is a zombie, and remains one
    os.write(writing, f"{pid}\n".encode())


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    os.write(writing, b"0\n")


DEEDS = {
    "child": fork_once,
    "thread": fork_from_thread,
    "grandchild": lambda: fork_twice(stay=True),
    "orphan": lambda: fork_twice(stay=False),
    "session-orphan": lambda: fork_twice(stay=False, own_session=True),
    "bound": fork_bound,
    "brief": fork_brief,
    "reap": reap,
}
answers = os.fdopen(reading)
for line in sys.stdin:
    DEEDS[line.strip()]()
    sys.stdout.write(answers.readline())
    sys.stdout.flush()
