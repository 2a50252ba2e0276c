"""The example of caches, as its README shows it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
EXAMPLE = Path(__file__).parents[2] / "examples" / "cache"


def test_the_second_job_is_paid_for_and_the_third_one_looks_elsewhere(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TMPDIR": str(tmp_path), "NO_COLOR": "1"}

    ended = subprocess.run(
        ["sh", str(EXAMPLE / "run.sh")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert "bytecode paid;" in ended.stdout
    assert "bytecode inert" in ended.stdout
    assert "another directory" in " ".join(ended.stdout.split())
    assert list(tmp_path.iterdir()) == []
