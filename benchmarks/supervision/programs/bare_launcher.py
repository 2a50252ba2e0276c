# SPDX-License-Identifier: Apache-2.0
"""COMMAND…: runs it, waits for its end on a pidfd, and ends: the least that a command-line tool can do."""

import os
import select
import subprocess
import sys

process = subprocess.Popen(sys.argv[1:])
select.select([os.pidfd_open(process.pid)], [], [])
os._exit(process.wait())
