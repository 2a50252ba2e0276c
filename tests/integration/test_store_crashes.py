import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "caches" / "crashes.py"


@pytest.mark.integration
def test_a_save_or_a_restore_that_is_killed_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """A sample of the system calls: the program itself takes every one."""
    command = [sys.executable, str(PROGRAM), "--directory", str(tmp_path), "--every", "53"]

    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    if ran.returncode == 77:
        pytest.skip("a process may not trace its own child here")
    assert (ran.returncode, ran.stderr.strip()) == (0, "")
    assert ran.stdout.count("\t0\n") == 3
