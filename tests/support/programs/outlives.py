# SPDX-License-Identifier: Apache-2.0
"""FILE [PORT]: ignores SIGINT and SIGTERM and writes a line to FILE once it does and for each one; PORT is listened on."""

import signal
import socket
import sys


def say(text: str) -> None:
    with open(sys.argv[1], "a") as file:  # noqa: PTH123
        file.write(text + "\n")


for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda got, _frame: say(signal.Signals(got).name))
listening = socket.create_server(("127.0.0.1", int(sys.argv[2]))) if sys.argv[2:] else None
say("ready")
while True:
    signal.pause()
