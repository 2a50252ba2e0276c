# SPDX-License-Identifier: Apache-2.0
"""PORT HOW DIRECTORY: listens on PORT beside a helper, which waits for our end and then writes DIRECTORY/tidied.

The helper waits for the end of a pipe, or with `polls` asks for its parent. HOW names what it does not hear:
`ignores`, `blocks`, `ignores-INT`, `ignores-TERM`, `stops` (ignores both, and is stopped). With `waits` it blocks both,
and waits for them by sigwait(3). With `--crash` after HOW we end with code 3 once both are ready.
"""

import os
import signal
import socket
import sys
from pathlib import Path

port, how, directory = int(sys.argv[1]), sys.argv[2], Path(sys.argv[-1])
BOTH = {signal.SIGINT, signal.SIGTERM}


def tidy() -> None:
    # What takes time and a system call more: a signal in between would show.
    sum(range(200_000))
    (directory / "tidied").write_text("yes\n")
    os._exit(0)


def helper(reading: int, ready: int) -> None:
    ignored = {"ignores-INT": {signal.SIGINT}, "ignores-TERM": {signal.SIGTERM}}.get(how, BOTH)
    if how in {"blocks", "waits"}:
        signal.pthread_sigmask(signal.SIG_BLOCK, BOTH)
    else:
        for number in BOTH:
            wanted = signal.SIG_IGN if number in ignored else signal.SIG_DFL
            signal.signal(number, wanted)
    parent = os.getppid()
    os.write(ready, b"x")
    os.close(ready)
    if how == "stops":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "waits":
        signal.sigwait(BOTH)
    elif how == "polls":
        while os.getppid() == parent:
            signal.sigtimedwait((), 0.05)
    else:
        os.read(reading, 1)
    tidy()


reading, writing = os.pipe()
told, ready = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(writing)
    helper(reading, ready)
os.close(ready)
os.read(told, 1)
if how == "stops":
    os.waitpid(pid, os.WUNTRACED)
if "--crash" in sys.argv:
    os._exit(3)
server = socket.create_server(("127.0.0.1", port))
for number in BOTH:
    signal.signal(number, lambda *_: os._exit(0))
sys.stdout.write("listening\n")
sys.stdout.flush()
while True:
    server.accept()[0].close()
