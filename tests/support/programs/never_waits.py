# SPDX-License-Identifier: Apache-2.0
"""PIDFILE CODE: starts a child that ends with CODE (by the signal -CODE) and never waits for it.

The child ends when a byte comes on stdin of ours. Its pid is in PIDFILE.
"""

import os
import signal
import sys
from pathlib import Path

code = int(sys.argv[2])
child = os.fork()
if child == 0:
    os.read(0, 1)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)
unfinished = Path(sys.argv[1] + ".new")
unfinished.write_text(f"{child}\n")
unfinished.rename(sys.argv[1])
signal.pause()
