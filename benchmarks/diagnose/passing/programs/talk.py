# SPDX-License-Identifier: Apache-2.0
"""Sends lines to a local port, one connection each, and prints what comes back."""

import socket
import sys

for line in sys.argv[2:]:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=2) as talk:
        talk.sendall(line.encode() + b"\r\n\r\n")
        try:
            print(f"> {line}\n< {talk.recv(4000).decode(errors='replace').strip()}", flush=True)
        except OSError as error:
            print(f"> {line}\n< nothing: {error!r}", flush=True)
