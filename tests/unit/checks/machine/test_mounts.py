# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.machine.mounts import Mount, mount_holding, parse_mounts, read_mounts
from tests.support.checks import check_context

LINES = (
    "25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw",
    "30 25 0:27 / /tmp rw - tmpfs tmpfs rw,size=64k",
    r"31 25 0:28 / /mnt/with\040space rw - nfs4 server:/export rw",
    "32 25 0:29 / /tmp rw - tmpfs later rw",
    "no mount at all",
)


def test_options_before_the_dash_do_not_matter() -> None:
    first = parse_mounts(LINES)[0]

    assert first == Mount(point=Path("/"), kind="ext4", source="/dev/vda")


def test_a_space_in_a_directory_is_read_back() -> None:
    assert parse_mounts(LINES)[2].point == Path("/mnt/with space")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/tmp/x", "later"),
        ("/tmpx", "/dev/vda"),
        ("/mnt/with space/deep/er", "server:/export"),
        ("/", "/dev/vda"),
    ],
)
def test_the_nearest_mount_holds_a_path_and_hides_earlier_ones(path: str, source: str) -> None:
    mount = mount_holding(parse_mounts(LINES), Path(path))

    assert mount is not None
    assert mount.source == source


@pytest.mark.parametrize(
    ("kind", "is_network"),
    [("nfs4", True), ("lustre", True), ("fuse.gcsfuse", True), ("ext4", False), ("overlay", False)],
)
def test_files_on_other_machines_are_known_by_their_kind(kind: str, is_network: bool) -> None:
    assert Mount(point=Path("/"), kind=kind, source="x").is_network is is_network


def test_fuse_on_a_local_block_device_is_not_the_network() -> None:
    assert not Mount(point=Path("/"), kind="fuseblk", source="/dev/sdb1").is_network


def test_without_proc_no_mount_is_known(tmp_path: Path) -> None:
    assert read_mounts(check_context(tmp_path, root=tmp_path)) == ()
    assert mount_holding((), Path("/tmp")) is None
