# SPDX-License-Identifier: Apache-2.0
"""A server that dies of the error of an import: `launch` and `wait` name the next step behind its line."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.import_programs import Program
from tests.support.cli import doctor

pytestmark = pytest.mark.integration

DIES = "from lazypkg import Nothing"
STEP = "`ci-doctor import-race probe lazypkg:Nothing`"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Program(name="", text=DIES).write(tmp_path)


def finding(folder: Path) -> dict[str, Any]:
    report = json.loads((folder / "out" / "report.json").read_text())
    died: dict[str, Any] = report["findings"][0]
    return died


def test_launch_names_import_race(folder: Path) -> None:
    ran = doctor(
        "launch", "--report-dir", "out", "--service", f"api={shlex.join([sys.executable, 'main.py'])} {{port}}",
        "--ready", "api=tcp://127.0.0.1:{port}", "--", "true", cwd=folder,
    )  # fmt: skip

    assert ran.code == 1, ran
    died = finding(folder)
    assert (
        "> ImportError: cannot import name 'Nothing' from 'lazypkg'"
        in died["evidence"][0]["excerpt"]
    )
    assert STEP in died["remedy"]
    assert "less +" in died["remedy"], "the log comes first"


def test_wait_names_import_race(folder: Path) -> None:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "main.py"], cwd=folder, stderr=log)
        try:
            ran = doctor(
                "wait", "--pid", str(process.pid), "--ready", "http://127.0.0.1:9/", "--log", "log",
                "--report-dir", "out", cwd=folder,
            )  # fmt: skip
        finally:
            process.wait()

    assert ran.code == 1, ran
    assert STEP in finding(folder)["remedy"]
