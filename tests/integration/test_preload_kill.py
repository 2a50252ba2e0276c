# SPDX-License-Identifier: Apache-2.0
"""A SIGKILL at every step of installing, changing and removing a preload shim."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.preload_venvs import Venv, interpreters
from tests.support.cli import environment

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("operation", "at_least"), [("install", 18), ("replace", 13), ("remove", 6)]
)
@pytest.mark.gate(1)
def test_kill_at_every_step_leaves_an_interpreter_that_starts_and_can_be_mended(
    operation: str, at_least: int, tmp_path: Path
) -> None:
    venv = Venv(interpreters()["own"], tmp_path / "v")
    venv.put({"theirs.py": "", "theirs.pth": "import theirs\n"})
    venv.run("-c", "pass")  # somebody else's bytecode is there too
    ran = subprocess.run(
        [sys.executable, "-m", "tests.integration.preload_kills", operation, venv.python, venv.site_dir],
        capture_output=True, text=True, check=False, cwd=ROOT, env=environment(), timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    *lines, effects = ran.stdout.splitlines()
    kills = [json.loads(line) for line in lines]
    assert int(effects) >= at_least, "too few effects were seen for this to prove anything"
    assert len(kills) == int(effects) + 1
    for kill in kills:
        assert kill["start"] == [0, ""], kill
        assert kill["loaded"] == kill["in_source"], kill
        assert kill["finished"] in (True, None), kill
        assert kill["changed"] == [], kill
    if operation == "install":
        assert any(
            name.startswith(".ci_doctor_preload.pth.") for kill in kills for name in kill["left"]
        )
        assert not any(
            name.startswith(".") and name.endswith(".pth")
            for kill in kills
            for name in kill["left"]
        )
