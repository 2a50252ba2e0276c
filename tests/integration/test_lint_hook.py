# SPDX-License-Identifier: Apache-2.0
"""The hook for pre-commit, by pre-commit itself: its manifest, and a commit that it lets through or not."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import ROOT, environment
from tests.support.git_repository import git, make_repository

pytestmark = pytest.mark.integration
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
WRONG = "import sys\n\ntry:\n    compare()\nexcept Exception as error:\n    print(error)\n\n    sys.exit(0)\n"
RIGHT = WRONG.replace("exit(0)", "exit(1)")


def hook() -> dict[str, Any]:
    (only,) = yaml.safe_load(MANIFEST.read_text())
    assert isinstance(only, dict)
    return only


def pre_commit(directory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    home = {"PRE_COMMIT_HOME": str(directory / ".cache"), "GIT_CONFIG_GLOBAL": "/dev/null"}
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", *words],
        cwd=directory,
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
    )


def test_pre_commit_takes_the_manifest(tmp_path: Path) -> None:
    ran = pre_commit(tmp_path, "validate-manifest", str(MANIFEST))

    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    ("text", "code", "word"), [(WRONG, 1, "gate/success-on-error"), (RIGHT, 0, "Passed")]
)
@pytest.mark.gate(1)
def test_a_commit_with_a_mistake_is_stopped(
    text: str, code: int, word: str, tmp_path: Path
) -> None:
    # What pre-commit would install is this installation; everything else is the manifest's.
    local = {**hook(), "language": "system", "entry": f"{sys.executable} -m ci_doctor lint"}
    config = {"repos": [{"repo": "local", "hooks": [local]}]}
    make_repository(tmp_path, {".pre-commit-config.yaml": yaml.safe_dump(config)})
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "gate.py").write_text(text)
    (tmp_path / "notes.md").write_text("no file for the hook\n")
    git(tmp_path, "add", "--all")

    ran = pre_commit(tmp_path, "run")

    assert ran.returncode == code, ran.stdout
    assert word in ran.stdout
