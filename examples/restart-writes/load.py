# SPDX-License-Identifier: Apache-2.0
"""PORT: puts one key after another, and prints each as soon as the store has acknowledged it."""

import itertools
import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    stream = connection.makefile("rw")
    for number in itertools.count():
        stream.write(f"put key{number} value{number}\n")
        stream.flush()
        if stream.readline() != "ok\n":
            break
        # Flushed, because a line that waits in a buffer is lost with this program.
        print(f"key{number} value{number}", flush=True)
