# SPDX-License-Identifier: Apache-2.0
"""PORT: reads acknowledged lines from standard input, and prints a line for each that is not there."""

import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    stream = connection.makefile("rw")
    for line in sys.stdin:
        key, value = line.split()
        stream.write(f"get {key}\n")
        stream.flush()
        there = stream.readline()
        if not there:
            print("the store has closed the connection", file=sys.stderr)
            # An error, and no answer: nobody knows what is lost.
            sys.exit(2)
        if there != f"{value}\n":
            print(f"{key}: {value} was acknowledged, and {there.strip() or 'nothing'} is there")
