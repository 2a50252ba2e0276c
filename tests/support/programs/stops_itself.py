# SPDX-License-Identifier: Apache-2.0
"""PORT: listens, and is then stopped by SIGSTOP once it has answered."""

import os
import signal
import socket
import sys

with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    server.accept()[0].close()
    os.kill(os.getpid(), signal.SIGSTOP)
    signal.pause()
