# SPDX-License-Identifier: Apache-2.0
"""PORT: accepts connections and never says a word."""

import socket
import sys

kept = []
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        kept.append(server.accept())
