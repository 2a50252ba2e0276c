# SPDX-License-Identifier: Apache-2.0
"""PORT …: listens, takes what comes, and does nothing else."""

import socket
import sys

with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        server.accept()[0].close()
