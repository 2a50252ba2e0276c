"""A test gives a process little time."""

import subprocess
import sys


def test_answers_soon() -> None:
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True, timeout=0.2)
