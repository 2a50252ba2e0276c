# SPDX-License-Identifier: Apache-2.0
"""The checks of the machine through the command line, on disks and limits that are really bad."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import BARE, ROOT, doctor

DEAD_DISK = ROOT / "tests" / "support" / "programs" / "dead_disk.py"
# In one namespace: starting ci-doctor once is dearer than all the checks.
SCRIPT = """
mount -t tmpfs -o size=64m tmpfs full
head -c 65m /dev/zero >full/file 2>/dev/null || :
mount -t tmpfs -o nr_inodes=200 tmpfs inodes
(cd inodes && touch $(seq 200) 2>/dev/null)
mount -t tmpfs -o ro tmpfs models
mount -t tmpfs -o size=64m tmpfs /dev/shm
mount -t tmpfs tmpfs /sys
ulimit -s 1024
ulimit -n 512
export TMPDIR=$PWD/full UV_CACHE_DIR=$PWD/inodes HF_HOME=$PWD/models TRITON_CACHE_DIR=$PWD/dead/triton
export LC_ALL=tlh_QO.UTF-8
exec "$@"
"""


def can(*command: str) -> bool:
    """Whether the kernel lets us make a namespace and mount there."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def bad_machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of a machine with a full disk, no inodes, a dead server, a small /dev/shm, no /sys."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no FUSE file system can be mounted here")
    if not can("unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"):
        pytest.skip("no file system can be mounted here")
    place = tmp_path_factory.mktemp("machine")
    for name in ("full", "inodes", "models", "dead"):
        (place / name).mkdir()
    before = ("unshare", "-rm", "sh", "-c", SCRIPT, "sh", *BARE, str(DEAD_DISK), "dead", "0")
    ran = doctor("doctor", "machine", "--json", cwd=place, before=before)
    assert ran.code == 75, ran
    report: dict[str, Any] = json.loads(ran.out)
    return report


def check_of(report: dict[str, Any], name: str) -> dict[str, Any]:
    (check,) = [each for each in report["facts"]["checks"] if each["id"] == name]
    return dict(check)


def summaries(report: dict[str, Any], rule: str) -> list[str]:
    return [each["summary"] for each in report["findings"] if each["rule"] == f"doctor/{rule}"]


def test_disks_that_are_full_read_only_or_dead_are_told_apart(bad_machine: dict[str, Any]) -> None:
    assert bad_machine["verdict"] == "infra"
    assert any("/full (tmpfs) has 0 B free" in text for text in summaries(bad_machine, "disk-full"))
    (inodes,) = summaries(bad_machine, "inodes-low")
    assert "/inodes (tmpfs) has 0 inodes free of 200: UV_CACHE_DIR" in inodes
    (models,) = summaries(bad_machine, "directory-not-writable")
    assert models.startswith("HF_HOME cannot be written to")
    assert models.endswith("/models (tmpfs) is mounted read-only")
    # One that never answers is unknown, and the others are known.
    check = check_of(bad_machine, "machine/disks")
    assert check["unknown"].endswith(
        "/dead/triton: no answer within 1 s (fuse.dead of server:/export)"
    )
    assert len(check["figures"]) >= 3


def test_little_shared_memory_low_limits_and_no_sys_are_said(bad_machine: dict[str, Any]) -> None:
    assert check_of(bad_machine, "machine/shared-memory")["status"] == "error"
    assert check_of(bad_machine, "machine/cgroup-memory")["status"] == "unknown"
    texts = summaries(bad_machine, "ulimit-low")
    assert [text.split(" (")[0] for text in texts] == ["512 files may be open"]


@pytest.mark.skipif(
    not can("unshare", "-m", "test", "-w", "/dev/fuse"), reason="needs FUSE and root"
)
def test_a_disk_that_refuses_even_root_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    before = ("unshare", "-m", *BARE, str(DEAD_DISK), "models", "1")
    env = {"HF_HOME": str(tmp_path / "models" / "hub"), "TMPDIR": None}

    ran = doctor("doctor", "machine/writing", "--json", cwd=tmp_path, env=env, before=before)

    (summary,) = summaries(json.loads(ran.out), "directory-not-writable")
    assert summary.startswith("HF_HOME cannot be written to")
    assert summary.endswith(f"this user may not reach {tmp_path / 'models' / 'hub'}")


@pytest.mark.skipif(not can("unshare", "-U", "true"), reason="no user namespace can be made")
def test_a_user_without_rights_and_home_gets_an_answer_of_every_check(tmp_path: Path) -> None:
    line = ("doctor", "machine", "--skip", "machine/disks", "--json")
    env = {"HOME": "/nonexistent"}

    ran = doctor(*line, cwd=tmp_path, env=env, before=("unshare", "-U"))

    assert ran.code == 0, ran
    checks = json.loads(ran.out)["facts"]["checks"]
    assert all(each["milliseconds"] is not None for each in checks)
    assert "doctor/check-crashed" not in ran.out
