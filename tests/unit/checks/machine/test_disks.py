# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

from ci_doctor.checks.machine.disks import read_disks
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context
from tests.support.machine_trees import write_tree


def test_a_directory_that_does_not_exist_yet_counts_by_the_nearest_above_it(
    tmp_path: Path,
) -> None:
    environ = {"HF_HOME": str(tmp_path / "not" / "yet")}

    disks = read_disks(check_context(tmp_path, environ=environ))

    (models,) = [each for each in disks.directories if each.directory.name == "HF_HOME"]
    assert not models.exists
    assert models.existing == tmp_path
    assert models.device == tmp_path.stat().st_dev


def test_each_file_system_stands_once_with_its_directories(tmp_path: Path) -> None:
    environ = {"TMPDIR": str(tmp_path / "a"), "HF_HOME": str(tmp_path / "b")}

    groups = read_disks(check_context(tmp_path, environ=environ)).by_device()

    devices = [group[0].device for group in groups]
    assert len(devices) == len(set(devices))
    (own,) = [group for group in groups if group[0].device == tmp_path.stat().st_dev]
    names = {each.directory.name for each in own}
    assert {"TMPDIR", "HF_HOME", "the working directory"} <= names


def test_a_link_leads_to_the_disk_behind_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/shm")
    environ = {"HF_HOME": str(tmp_path / "link")}

    disks = read_disks(check_context(tmp_path, environ=environ))

    (models,) = [each for each in disks.directories if each.directory.name == "HF_HOME"]
    assert models.mount is not None
    assert models.mount.point == Path("/dev/shm")


def test_the_figures_are_those_of_statvfs(tmp_path: Path) -> None:
    disks = read_disks(check_context(tmp_path, environ={}))

    (own,) = [each for each in disks.directories if each.directory.path == tmp_path]
    assert own.total == os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize
    assert own.is_writable
    assert not own.is_read_only
    assert disks.unknown() is None


def test_without_proc_the_kind_of_a_disk_is_unknown_and_its_room_is_not(tmp_path: Path) -> None:
    disks = read_disks(check_context(tmp_path, environ={}, root=tmp_path))

    assert {each.mount for each in disks.directories} == {None}
    assert all(each.total for each in disks.directories)


def test_a_disk_is_named_by_its_mount_and_kind(tmp_path: Path) -> None:
    mount = f"9 1 0:9 / {os.path.realpath(tmp_path)} rw - nfs4 server:/models rw\n"
    root = write_tree(tmp_path, {"proc/self/mountinfo": mount})

    disks = read_disks(check_context(tmp_path, environ={}, root=root))

    (own,) = [each for each in disks.directories if each.directory.path == tmp_path]
    assert own.disk_name == f"{os.path.realpath(tmp_path)} (nfs4)"


def test_a_service_may_name_directories_of_its_own(tmp_path: Path) -> None:
    env = {"VLLM_CACHE_ROOT": str(tmp_path / "fast"), "HF_HOME": "/tmp/{arm}"}
    services = {"vllm": ServiceSpec(command="vllm serve", env=env)}

    disks = read_disks(check_context(tmp_path, environ={}, services=services))

    paths = {each.directory.path for each in disks.directories}
    assert tmp_path / "fast" in paths
    assert Path("/tmp/{arm}") not in paths


def test_docker_s_directory_counts_only_if_it_is_there(tmp_path: Path) -> None:
    disks = read_disks(check_context(tmp_path, environ={}))

    names = {each.directory.name for each in disks.directories}
    assert ("/var/lib/docker" in names) is Path("/var/lib/docker").is_dir()
