# SPDX-License-Identifier: Apache-2.0
"""PORT DIRECTORY [--crash]: listens on PORT with 1 MiB of named shared memory, whose name stands in DIRECTORY/segment.

It leaves the segment to Python's resource tracker, as every server does that a signal ends. --crash: ends at once.
"""

import os
import signal
import socket
import sys
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

segment = SharedMemory(create=True, size=1 << 20)
(Path(sys.argv[2]) / "segment").write_text(segment.name)
if "--crash" in sys.argv:
    os._exit(3)
signal.signal(signal.SIGINT, signal.SIG_DFL)
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    server.accept()[0].close()
