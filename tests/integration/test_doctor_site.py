"""`ci-doctor doctor` about the network, leftovers and the checkout, as people type it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import doctor
from tests.support.git_repository import make_repository

pytestmark = pytest.mark.integration

# A run of ci-doctor that is killed while it works in its temporary directory.
KILLED = """
import os, signal
from ci_doctor.system.files.access import own_directory
with own_directory("verify") as name:
    os.utime(name, (0, 0))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What a killed ci-doctor has left in a TMPDIR of our own."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    environ = {**os.environ, "TMPDIR": str(folder)}
    killed = subprocess.run([sys.executable, "-c", KILLED], env=environ, check=False)
    assert killed.returncode == -signal.SIGKILL
    (path,) = folder.iterdir()
    return path


def test_fix_shows_each_change_makes_it_and_looks_again(tmp_path: Path, left: Path) -> None:
    name = "leftovers/temporary-directories"
    env = {"TMPDIR": str(left.parent)}

    would = doctor("doctor", name, "--fix", "--dry-run", "--json", cwd=tmp_path, env=env)
    assert left.is_dir()
    fixed = doctor("doctor", name, "--fix", "--json", cwd=tmp_path, env=env)

    facts = [json.loads(ran.out)["facts"] for ran in (would, fixed)]
    assert (would.code, fixed.code, left.exists()) == (0, 0, False)
    assert facts[0]["would_fix"] == facts[1]["fixed"]
    assert f"remove {left}" in fixed.err
    assert json.loads(would.out)["findings"][0]["rule"] == "doctor/own-directories"
    assert json.loads(fixed.out)["findings"] == []


def test_a_dry_run_without_fix_is_a_mistake(tmp_path: Path) -> None:
    ran = doctor("doctor", "--dry-run", cwd=tmp_path)

    assert (ran.code, "--dry-run goes with --fix" in ran.err) == (2, True), ran


def test_a_broken_site_ends_with_75_and_lines_to_paste(tmp_path: Path) -> None:
    mirror = make_repository(tmp_path / "mirror")
    subprocess.run(["git", "clone", "-q", "--shared", mirror, tmp_path / "job"], check=True)
    shutil.rmtree(mirror)
    env = {"http_proxy": "http://me:hunter2@proxy.example:3128", "no_proxy": "127.0.0.0/8"}

    ran = doctor("doctor", "network", "checkout", cwd=tmp_path / "job", env=env)

    assert ran.code == 75, ran
    assert "the mirror" in ran.out
    assert "export no_proxy=" in ran.out
    assert "hunter2" not in ran.out + ran.err
