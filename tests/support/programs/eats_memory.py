# SPDX-License-Identifier: Apache-2.0
"""MEBIBYTES [CGROUP]: joins the cgroup in that folder, and takes so much memory, by which it may be killed."""

import sys
from pathlib import Path

if len(sys.argv) > 2:
    Path(sys.argv[2], "cgroup.procs").write_text("0")
eaten = [bytes([1]) * 2**20 for _ in range(int(sys.argv[1]))]
