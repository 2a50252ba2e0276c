# SPDX-License-Identifier: Apache-2.0
"""PORT ARGUMENT...: writes its arguments, environment and folder as JSON on one line, then listens."""

import json
import os
import socket
import sys
from pathlib import Path

sys.stdout.write(
    json.dumps({"argv": sys.argv[1:], "environment": dict(os.environ), "cwd": str(Path.cwd())})
    + "\n"
)
sys.stdout.flush()
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        server.accept()[0].close()
