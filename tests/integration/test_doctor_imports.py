# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor doctor imports`: a service whose import loses a race, and the pasted remedy that cures it."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.integration.preload_venvs import PACKAGES, Venv
from tests.support.cli import Ran, doctor

pytestmark = pytest.mark.integration


def findings(ran: Ran) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(ran.out)["findings"]
    return found


def test_the_remedy_for_a_lost_import_race_can_be_pasted_and_cures_it(tmp_path: Path) -> None:
    venv = Venv(Path(sys.executable), tmp_path / "v")
    venv.put(PACKAGES)
    command = json.dumps([str(venv.python), "-m", "fakeserve.cli", "{port}"])
    (tmp_path / "ci-doctor.toml").write_text(f"[services.web]\ncommand = {command}\n")
    arguments = ("doctor", "imports", "--venv", "v", "--json")

    broken = doctor(*arguments, cwd=tmp_path)
    (finding,) = findings(broken)
    program, *pasted = shlex.split(finding["remedy"])
    installed = doctor(*pasted, cwd=tmp_path)
    cured = doctor(*arguments, cwd=tmp_path)

    assert broken.code == 75
    assert "cannot import name 'GenerationConfig' from 'fakeformers'" in finding["summary"]
    assert finding["remedy_kind"] == "command"
    assert (program, installed.code) == ("ci-doctor", 0), installed
    assert (cured.code, findings(cured)) == (0, []), cured
