# SPDX-License-Identifier: Apache-2.0
"""PORT NOTE SECONDS: listens, and after SECONDS its child notes the monotonic time (ns) in NOTE and is killed by -9."""

import os
import signal
import socket
import sys
import time

port, note, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
server = socket.create_server(("127.0.0.1", port))
if not os.fork():
    file = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    time.sleep(seconds)
    os.write(file, b"%d" % time.monotonic_ns())
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    server.accept()[0].close()
