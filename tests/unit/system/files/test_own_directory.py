"""Temporary directories of ours: in use, abandoned, removed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.system.files.access import (
    abandoned_directories,
    is_abandoned,
    mounted_below,
    own_directory,
    remove_abandoned,
)

HOLD = """
from ci_doctor.system.files.access import own_directory
with own_directory("verify") as name:
    print(name, flush=True)
    input()
"""
LATER = 4e9  # seconds since the epoch: every file is old


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def test_a_directory_in_use_is_not_abandoned(
    tmp_path: Path, holder: "subprocess.Popen[str]"
) -> None:
    assert holder.stdout is not None
    path = Path(holder.stdout.readline().strip())

    assert path.parent == tmp_path
    assert abandoned_directories(tmp_path, LATER, 3600) == []
    with pytest.raises(UsageError, match="in use"):
        remove_abandoned(path)
    assert path.is_dir()


def test_a_killed_owner_leaves_an_abandoned_one_that_can_be_removed(
    tmp_path: Path, holder: "subprocess.Popen[str]"
) -> None:
    assert holder.stdout is not None
    path = Path(holder.stdout.readline().strip())
    (path / "log").write_text("x")
    holder.send_signal(signal.SIGKILL)
    holder.wait()

    assert abandoned_directories(tmp_path, LATER, 3600) == [path]
    remove_abandoned(path)

    assert not path.exists()


def test_a_young_one_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ci-doctor-tmp.abcd_123"
    path.mkdir()

    assert is_abandoned(path)
    assert abandoned_directories(tmp_path, path.stat().st_mtime + 3599, 3600) == []


@pytest.mark.parametrize("name", ["ci-doctor-report", "ci-doctor-tmp", "ci-doctor-tmp.mine"])
def test_a_directory_of_another_name_is_not_ours(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()

    assert abandoned_directories(tmp_path, LATER, 3600) == []
    with pytest.raises(UsageError, match="not a temporary directory"):
        remove_abandoned(tmp_path / name)


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    link = tmp_path / "ci-doctor-tmp.abcd_123"
    link.symlink_to(tmp_path / "precious")

    assert abandoned_directories(tmp_path, LATER, 3600) == []
    with pytest.raises(OSError):
        remove_abandoned(link)
    assert (tmp_path / "precious").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_another_users_directory_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "ci-doctor-tmp.abcd_123"
    path.mkdir()
    os.chown(path, 65534, 65534)

    assert abandoned_directories(tmp_path, LATER, 3600) == []


REMOVE = """
import sys
from pathlib import Path
from ci_doctor.errors import UsageError
from ci_doctor.system.files.access import remove_abandoned
try:
    remove_abandoned(Path(sys.argv[1]))
except UsageError as error:
    print(error)
"""


def test_what_is_mounted_below_it_is_not_emptied(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "precious").write_text("x")
    path = tmp_path / "ci-doctor-tmp.abcd_123"
    (path / "cache").mkdir(parents=True)
    script = f'mount --bind {data} {path}/cache && exec {sys.executable} -c "$0" {path}'
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, REMOVE],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        pytest.skip("nothing can be mounted here")

    assert ran.stdout == f"{path}/cache is a mount, and its files are not ci-doctor's\n"
    assert (data / "precious").read_text() == "x"


def test_a_mount_is_found_by_its_whole_path() -> None:
    mounts = [
        "22 1 0:21 / / rw - ext4 /dev/sda1 rw",
        r"23 22 0:22 / /tmp/a\040b/cache rw - tmpfs tmpfs rw",
        "cut off",
    ]

    assert mounted_below(mounts, Path("/tmp/a b")) == Path("/tmp/a b/cache")
    assert mounted_below(mounts, Path("/tmp/a")) is None


def test_it_is_gone_at_the_end() -> None:
    with own_directory() as name:
        assert Path(name).is_dir()
    assert not Path(name).exists()


def test_no_module_makes_a_temporary_directory_of_another_kind() -> None:
    """Another directory could not be told from one that is in use."""
    room = Path(__file__).parents[4] / "ci_doctor"
    makers = [
        path.name
        for path in room.rglob("*.py")
        if "TemporaryDirectory(" in path.read_text() or "mkdtemp(" in path.read_text()
    ]

    assert makers == ["access.py"]
