"""A test leaves a worker, and another one counts workers."""

import os
import subprocess
import sys
from pathlib import Path

MARK = f"shop-worker-{Path.cwd()}"


def _workers() -> int:
    count = 0
    for path in Path("/proc").iterdir():
        try:
            count += MARK.encode() in (path / "cmdline").read_bytes()
        except OSError:
            continue
    return count


def test_worker_starts() -> None:
    program = "print(1, flush=True); import time; time.sleep(600)"
    words = [sys.executable, "-S", "-c", program, MARK]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert process.pid != os.getpid()


def test_no_worker() -> None:
    assert _workers() == 0
