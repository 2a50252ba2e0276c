# SPDX-License-Identifier: Apache-2.0
"""PORT: a server whose worker process is killed by SIGSEGV at the first connection; the server lives on."""

import os
import signal
import socket
import sys

worker = os.fork()
if worker == 0:
    while True:
        signal.pause()
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        connection, _ = server.accept()
        if connection.recv(1):
            os.kill(worker, signal.SIGSEGV)
        connection.close()
