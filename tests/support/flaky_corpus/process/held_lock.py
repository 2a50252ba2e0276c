"""A test leaves a process that holds a lock."""

import fcntl
import subprocess
import sys
from pathlib import Path

LOCK = Path("shop.lock")
HOLDER = "import fcntl, sys, time; file = open('shop.lock'); fcntl.flock(file, 2); print(1, flush=True); time.sleep(600)"


def test_holder() -> None:
    LOCK.touch()
    process = subprocess.Popen([sys.executable, "-S", "-c", HOLDER], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"


def test_lock_is_free() -> None:
    with LOCK.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
