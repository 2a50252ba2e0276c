# SPDX-License-Identifier: Apache-2.0
"""PIDFILE: starts a worker whose pid is written to PIDFILE, waits for it for ever, and lives on without it."""

import os
import signal
import sys
from pathlib import Path

worker = os.fork()
if worker == 0:
    signal.pause()
unfinished = Path(sys.argv[1] + ".new")
unfinished.write_text(str(worker))
unfinished.rename(sys.argv[1])
os.waitpid(worker, 0)
signal.pause()
