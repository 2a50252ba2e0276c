# SPDX-License-Identifier: Apache-2.0
"""PORT [--die]: starts four processes that ignore SIGINT and SIGTERM, each harder to find, then listens; or dies and leaves them.

One stays in our process group, one calls setsid, one forks twice, one forks twice and clears its environment.
"""

import os
import signal
import socket
import sys

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
reading, writing = os.pipe()


def live() -> None:
    os.write(writing, b".")
    while True:
        signal.pause()


def daemonise() -> None:
    os.setsid()
    if os.fork():
        os._exit(0)


def forget_everything() -> None:
    os.set_inheritable(writing, True)
    program = f"import os, signal; os.write({writing}, b'.'); signal.pause()"
    os.execve(sys.executable, [sys.executable, "-c", program, *sys.argv[1:]], {})


for shape in range(4):
    if os.fork():
        continue
    if shape == 1:
        os.setsid()
    if shape >= 2:
        daemonise()
    if shape == 3:
        forget_everything()
    live()

said = b""
while len(said) < 4:
    said += os.read(reading, 4)
if "--die" in sys.argv:
    sys.exit(3)
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        server.accept()[0].close()
