# SPDX-License-Identifier: Apache-2.0
"""PORT: puts one key after another, and prints each as soon as the store has acknowledged it."""

import itertools
import os
import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    stream = connection.makefile("rw")
    for number in itertools.count():
        # Of this run alone: an earlier one must not stand for a write that is lost.
        value = f"value{number}-{os.getpid()}"
        stream.write(f"put key{number} {value}\n")
        stream.flush()
        if stream.readline() != "ok\n":
            break
        # Flushed, because a line that waits in a buffer is lost with this program.
        print(f"key{number} {value}", flush=True)
