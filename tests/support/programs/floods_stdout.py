# SPDX-License-Identifier: Apache-2.0
"""PORT MEBIBYTES: prints that much before it listens, the last line without an end."""

import socket
import sys

line = b"x" * 1023 + b"\n"
for _ in range(int(sys.argv[2]) * 1024):
    sys.stdout.buffer.write(line)
sys.stdout.buffer.write(b"invalid \xff\xfe bytes and no newline")
sys.stdout.buffer.flush()
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        server.accept()[0].close()
