# SPDX-License-Identifier: Apache-2.0
"""The disks of a job: which they are, their room, inodes, permissions and kind, and /dev/shm."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus, UndeterminedError, result_of
from ci_doctor.checks.disks import (
    DirectoryRole,
    Disks,
    JobDirectory,
    Mount,
    PlacedDirectory,
    UnansweredDirectory,
    answers_within,
    disk_space,
    inode_severity,
    inodes_on,
    job_directories,
    mount_holding,
    needed_on,
    read_disks,
    read_mounts,
    shared_memory,
    space_on,
    writing,
    writing_on,
    writing_severity,
)
from ci_doctor.checks.settings import DoctorSettings, Workload
from ci_doctor.model.outcome import RemedyKind, Severity
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context
from tests.support.machine_trees import GIB, write_tree
from tests.support.placed_directories import disks_of, placed


def space_result(disks: Disks, least: int) -> CheckResult:
    return result_of(space_on(disks, least))


def inodes_result(disks: Disks) -> CheckResult:
    return result_of(inodes_on(disks))


def writing_result(disks: Disks, workload: Workload | None) -> CheckResult:
    return result_of(writing_on(disks, workload))


CWD = Path("/work/job")


def by_name(environ: dict[str, str], *caches: str) -> dict[str, JobDirectory]:
    return {each.name: each for each in job_directories(environ, CWD, caches)}


HOME = {"HOME": "/home/ci"}


@pytest.mark.parametrize(
    ("environ", "name", "path", "role"),
    [
        (HOME, "/tmp", "/tmp", DirectoryRole.TEMPORARY),
        (HOME, "the working directory", str(CWD), DirectoryRole.WORKING),
        (HOME, "~/.cache/vllm", "/home/ci/.cache/vllm", DirectoryRole.JIT_CACHE),
        (HOME, "~/.triton/cache", "/home/ci/.triton/cache", DirectoryRole.JIT_CACHE),
        ({**HOME, "VLLM_CACHE_ROOT": "/f"}, "VLLM_CACHE_ROOT", "/f", DirectoryRole.JIT_CACHE),
        ({**HOME, "XDG_CACHE_HOME": "/x"}, "/x/pip", "/x/pip", DirectoryRole.DOWNLOAD_CACHE),
        # A relative path counts from the working directory, a tilde from home.
        ({**HOME, "TMPDIR": "tmp"}, "TMPDIR", f"{CWD}/tmp", DirectoryRole.TEMPORARY),
        ({**HOME, "HF_HOME": "~/m"}, "HF_HOME", "/home/ci/m", DirectoryRole.DOWNLOAD_CACHE),
        (HOME, "own", f"{CWD}/own", DirectoryRole.CONFIGURED),
        ({"TMPDIR": "/scratch"}, "/tmp", "/tmp", DirectoryRole.OTHER_TEMPORARY),
    ],
)
def test_a_directory_has_its_place_and_role(
    environ: dict[str, str], name: str, path: str, role: DirectoryRole
) -> None:
    assert by_name(environ, "own")[name] == JobDirectory(path=Path(path), name=name, role=role)


def test_a_variable_replaces_the_usual_directory_and_the_other_name_of_its_own() -> None:
    assert "~/.cache/vllm" not in by_name({**HOME, "VLLM_CACHE_ROOT": "/f"})
    assert "/tmp" not in by_name({"TMPDIR": "/tmp"})


def test_without_a_home_there_are_no_usual_caches() -> None:
    names = set(by_name({}))

    assert names == {"/tmp", "/var/tmp", "the working directory", "/var/lib/docker"}


LINES = (
    "25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw",
    "30 25 0:27 / /tmp rw - tmpfs tmpfs rw,size=64k",
    r"31 25 0:28 / /mnt/with\040space rw - nfs4 server:/export rw",
    "32 25 0:29 / /tmp rw - tmpfs later rw",
    "no mount at all",
)


@pytest.fixture
def mounts(tmp_path: Path) -> tuple[Mount, ...]:
    root = write_tree(tmp_path, {"proc/self/mountinfo": "\n".join(LINES)})
    return read_mounts(check_context(tmp_path, root=root))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/tmp/x", "later"),
        ("/tmpx", "/dev/vda"),
        ("/mnt/with space/deep/er", "server:/export"),
        ("/", "/dev/vda"),
    ],
)
def test_the_nearest_mount_holds_a_path_and_hides_earlier_ones(
    path: str, source: str, mounts: tuple[Mount, ...]
) -> None:
    mount = mount_holding(mounts, Path(path))

    assert mount is not None
    assert mount.source == source


@pytest.mark.parametrize(
    ("kind", "is_network"),
    [
        ("nfs4", True),
        ("lustre", True),
        ("fuse.gcsfuse", True),
        ("fuseblk", False),
        ("ext4", False),
        ("overlay", False),
    ],
)
def test_files_on_other_machines_are_known_by_their_kind(kind: str, is_network: bool) -> None:
    assert Mount(point=Path("/"), kind=kind, source="/dev/sdb1").is_network is is_network


def test_one_that_does_not_answer_does_not_hold_up_the_others() -> None:
    never = threading.Event()
    try:
        values, missing = answers_within(0.5, {"hangs": never.wait, "answers": lambda: True})
    finally:
        never.set()

    assert values == {"answers": True}
    assert missing == {"hangs": "no answer within 0.5 s"}


def test_an_error_is_the_reason_why_there_is_no_answer() -> None:
    def refused() -> None:
        raise PermissionError(13, "Permission denied")

    def odd() -> None:
        raise ValueError("embedded null byte")

    _, missing = answers_within(60, {"refused": refused, "odd": odd})

    assert missing == {"refused": "Permission denied", "odd": "embedded null byte"}


def models_at(path: Path, cwd: Path) -> PlacedDirectory:
    """The directory of HF_HOME, which is `path`."""
    disks = read_disks(check_context(cwd, environ={"HF_HOME": str(path)}))
    (models,) = [each for each in disks.directories if each.directory.name == "HF_HOME"]
    return models


def test_a_directory_that_does_not_exist_yet_counts_by_the_nearest_above_it(
    tmp_path: Path,
) -> None:
    models = models_at(tmp_path / "not" / "yet", tmp_path)

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

    models = models_at(tmp_path / "link", tmp_path)

    assert models.mount is not None
    assert models.mount.point == Path("/dev/shm")


def test_without_proc_the_kind_of_a_disk_is_unknown_and_its_room_is_not(tmp_path: Path) -> None:
    disks = read_disks(check_context(tmp_path, environ={}, root=tmp_path))

    assert {each.mount for each in disks.directories} == {None}
    assert all(each.total for each in disks.directories)


def test_a_service_may_name_directories_of_its_own(tmp_path: Path) -> None:
    env = {"VLLM_CACHE_ROOT": str(tmp_path / "fast"), "HF_HOME": "/tmp/{arm}"}
    services = {"vllm": ServiceSpec(command="vllm serve", env=env)}

    disks = read_disks(check_context(tmp_path, environ={}, services=services))

    paths = {each.directory.path for each in disks.directories}
    assert tmp_path / "fast" in paths
    assert Path("/tmp/{arm}") not in paths


@pytest.mark.parametrize("is_there", [True, False])
def test_docker_s_directory_counts_only_if_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    docker = tmp_path / "docker"
    if is_there:
        docker.mkdir()
    monkeypatch.setattr("ci_doctor.checks.disks._DOCKER", str(docker))
    disks = read_disks(check_context(tmp_path, environ={}))

    roles = {each.directory.path: each.directory.role for each in disks.directories}
    assert roles.get(docker) is (DirectoryRole.SYSTEM if is_there else None)


def test_a_disk_at_99_percent_is_an_error_with_a_listing_to_look_at() -> None:
    full = placed(total=100 * GIB, free=1 * GIB)

    result = space_result(disks_of(full, placed(name="HF_HOME", free=1 * GIB)), 5 * GIB)

    assert result.status is CheckStatus.ERROR
    (finding,) = [each.finding for each in result.problems]
    assert finding.summary == (
        "/scratch disk (ext4) has 1.1 GB free of 107.4 GB; 5.4 GB are needed for TMPDIR, HF_HOME"
    )
    # It lists, and cures nothing by itself.
    assert finding.remedy_kind is RemedyKind.ADVICE
    assert "'/scratch disk'" in (finding.remedy or "")


def test_what_is_reserved_for_root_is_said() -> None:
    result = space_result(disks_of(placed(free=0, reserved=5 * GIB)), 5 * GIB)

    assert result.problems[0].finding.summary.endswith("(5.4 GB more are reserved for root)")


@pytest.mark.parametrize(
    ("disk", "says"),
    [
        (placed(total=10_000 * GIB, free=100 * GIB), "107.4 GB free of 10737.4 GB"),
        (placed(device=2, free=6 * GIB), "6.4 GB free of 107.4 GB, the least of 2 disks"),
        (placed(device=2, free=0, is_read_only=True), "64.4 GB free of 107.4 GB"),
    ],
    ids=["large, at 99 percent", "just enough", "read-only"],
)
def test_a_disk_with_room_for_a_job_is_ok(disk: PlacedDirectory, says: str) -> None:
    result = space_result(disks_of(disk, *[placed()] * (disk.device == 2)), 5 * GIB)

    assert (result.status, result.summary) == (
        CheckStatus.OK,
        f"/scratch disk (ext4) has {says}",
    )


@pytest.mark.parametrize(
    ("kind", "total", "needed"),
    [
        ("ext4", 8 * GIB, 5 * GIB),
        ("tmpfs", 8 * GIB, 8 * GIB // 20),
        ("tmpfs", 64 * GIB, 5 * GIB),
    ],
)
def test_a_small_tmpfs_is_small_by_intention(kind: str, total: int, needed: int) -> None:
    assert needed_on(placed(kind=kind, total=total), 5 * GIB) == needed


def test_a_disk_that_reports_no_size_is_unknown() -> None:
    result = space_result(disks_of(placed(), placed(device=2, total=0, free=0)), GIB)

    assert result.status is CheckStatus.UNKNOWN
    assert "does not say how much room" in (result.unknown or "")


def test_one_that_does_not_answer_leaves_the_others_known() -> None:
    mount = Mount(point=Path("/models"), kind="nfs4", source="server:/models")
    dead = UnansweredDirectory(
        directory=placed(name="HF_HOME").directory, reason="no answer within 1 s", mount=mount
    )

    result = space_result(Disks(directories=(placed(),), unanswered=(dead,)), GIB)

    assert result.status is CheckStatus.UNKNOWN
    assert result.unknown == "/scratch/HF_HOME: no answer within 1 s (nfs4 of server:/models)"
    assert "64.4 GB free" in result.summary


def test_if_no_disk_answers_all_is_unknown() -> None:
    none = Disks(directories=(), unanswered=())
    with pytest.raises(UndeterminedError):
        space_result(none, GIB)
    with pytest.raises(UndeterminedError):
        inodes_result(none)
    with pytest.raises(UndeterminedError):
        writing_result(none, None)


def test_the_configured_room_counts(tmp_path: Path) -> None:
    settings = DoctorSettings(min_free=f"{10**9}GiB")

    result = disk_space.run(check_context(tmp_path, environ={}, settings=settings))

    assert result.status is CheckStatus.ERROR


@pytest.mark.parametrize(
    ("free", "total", "severity"),
    [
        (0, 1000, Severity.ERROR),
        (50, 1000, Severity.WARNING),
        (200, 1000, None),
        (9_000, 10_000_000, Severity.ERROR),
        (40_000, 10_000_000, Severity.WARNING),
        (60_000, 10_000_000, None),
    ],
)
def test_few_inodes_warn_and_hardly_any_are_an_error(
    free: int, total: int, severity: Severity | None
) -> None:
    assert inode_severity(free, total) is severity


def test_a_disk_with_bytes_free_and_no_inodes_is_an_error() -> None:
    result = inodes_result(disks_of(placed(inodes=1000, inodes_free=0)))

    assert result.status is CheckStatus.ERROR
    finding = result.problems[0].finding
    assert finding.summary == "/scratch disk (ext4) has 0 inodes free of 1000: TMPDIR"
    assert "`du -x --inodes -d3 '/scratch disk'" in (finding.remedy or "")


def test_a_file_system_without_a_fixed_number_has_enough() -> None:
    result = inodes_result(disks_of(placed(inodes=0, inodes_free=0, kind="btrfs")))

    assert result.status is CheckStatus.OK
    assert result.summary == "no disk has a fixed number of inodes"


def test_the_disk_of_a_directory_that_refuses_us_is_not_judged_by_the_one_above_it() -> None:
    refused = placed(inodes=1000, inodes_free=0, is_refused=True)

    with pytest.raises(UndeterminedError):
        inodes_result(disks_of(refused))


@pytest.mark.parametrize(
    ("role", "workload", "severity"),
    [
        (DirectoryRole.TEMPORARY, None, Severity.ERROR),
        (DirectoryRole.REPORT, None, Severity.ERROR),
        (DirectoryRole.CONFIGURED, None, Severity.ERROR),
        (DirectoryRole.JIT_CACHE, None, Severity.WARNING),
        (DirectoryRole.JIT_CACHE, Workload.VLLM, Severity.ERROR),
        (DirectoryRole.DOWNLOAD_CACHE, Workload.VLLM, Severity.WARNING),
        (DirectoryRole.WORKING, None, Severity.WARNING),
        (DirectoryRole.OTHER_TEMPORARY, Workload.VLLM, Severity.NOTE),
    ],
)
def test_what_no_job_can_do_without_is_an_error(
    role: DirectoryRole, workload: Workload | None, severity: Severity
) -> None:
    assert writing_severity(role, workload) is severity


def test_what_lies_on_a_read_only_disk_is_one_problem_and_so_is_one_place() -> None:
    def refused(name: str, *, is_read_only: bool) -> PlacedDirectory:
        cache = DirectoryRole.DOWNLOAD_CACHE
        return placed(name=name, role=cache, is_writable=False, is_read_only=is_read_only)

    on_disk = [refused(name, is_read_only=True) for name in ("HF_HOME", "XDG_CACHE_HOME")]
    disk = writing_result(disks_of(*on_disk, placed()), None)
    place = writing_result(disks_of(*[refused("~/.cache/uv", is_read_only=False)] * 2), None)

    (found,) = disk.problems
    assert found.finding.summary == (
        "HF_HOME, XDG_CACHE_HOME cannot be written to: /scratch disk (ext4) is mounted read-only"
    )
    assert disk.summary == "1 of 3 directories can be written to"
    assert len(place.problems) == 1


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_a_directory_of_another_user_is_refused_and_a_home_that_does_not_exist_is_named(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o700)
    try:
        os.seteuid(65534)
        refused = writing.run(check_context(Path("/tmp"), environ={"TMPDIR": str(tmp_path)}))
        homeless = writing.run(check_context(Path("/tmp"), environ={"HOME": "/no-such-home"}))
    finally:
        os.seteuid(0)

    assert refused.status is CheckStatus.ERROR
    assert "TMPDIR cannot be written to" in refused.problems[0].finding.summary
    (found,) = homeless.problems
    for words in ("/no-such-home does not exist", "~/.cache/huggingface", "~/.triton/cache"):
        assert words in found.finding.summary


def test_docker_s_own_directory_is_not_ours_to_write_to() -> None:
    docker = placed(name="/var/lib/docker", role=DirectoryRole.SYSTEM, is_writable=False)

    assert writing_result(disks_of(placed(), docker), None).status is CheckStatus.OK


def test_a_tmpdir_that_does_not_exist_warns_with_the_command_that_makes_it(
    tmp_path: Path,
) -> None:
    environ = {"TMPDIR": str(tmp_path / "not yet")}

    result = writing.run(check_context(tmp_path, environ=environ))

    (finding,) = [each.finding for each in result.problems]
    assert finding.rule == "doctor/tmpdir-missing"
    assert finding.remedy == f"mkdir -p '{tmp_path}/not yet'"


def rules(root: Path, least: str = "1MiB") -> list[str]:
    settings = DoctorSettings(shared_memory=least)
    result = shared_memory.run(check_context(root, root=root, settings=settings))
    return [each.finding.rule for each in result.problems]


def test_shared_memory_that_is_missing_small_or_on_a_disk_is_a_problem(tmp_path: Path) -> None:
    assert rules(tmp_path) == ["doctor/shared-memory-unusable"]

    (tmp_path / "dev/shm").mkdir(parents=True)
    assert rules(tmp_path, least=f"{10**9}GiB") == ["doctor/shared-memory-small"]

    write_tree(tmp_path, {"proc/self/mountinfo": "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n"})
    assert rules(tmp_path) == ["doctor/shared-memory-on-disk"]


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_one_that_this_user_may_not_write_to_is_an_error() -> None:
    # The directory of a test is closed to other users.
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "dev" / "shm").mkdir(parents=True)
        try:
            os.seteuid(65534)
            refused = rules(root)
        finally:
            os.seteuid(0)

    assert refused == ["doctor/shared-memory-unusable"]


LOADABLE = """
import pathlib, subprocess, sys
from ci_doctor.checks.disks import noexec
from ci_doctor.checks.settings import DoctorSettings
from tests.support.checks import check_context
place = pathlib.Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", place], check=True)
environ = {"TMPDIR": f"{place}/tmp", "TRITON_CACHE_DIR": f"{place}/t", "CUDA_CACHE_PATH": f"{place}/c"}
for workload in (None, "vllm"):
    settings = DoctorSettings(workload=workload)
    for each in noexec.run(check_context(place, environ=environ, settings=settings)).problems:
        print(each.finding.severity, each.finding.summary.replace(str(place), "PLACE"))
"""


def test_kernels_on_a_disk_without_exec_cannot_be_loaded(tmp_path: Path) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        subprocess.run([*alone, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")

    ran = subprocess.run(
        [*alone, sys.executable, "-c", LOADABLE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    end = "PLACE (tmpfs) is mounted with noexec"
    assert ran.stdout.splitlines() == [
        f"warning no library can be loaded from TMPDIR: {end}",
        f"warning no library can be loaded from TRITON_CACHE_DIR: {end}",
        f"warning no library can be loaded from TMPDIR: {end}",
        f"error no library can be loaded from TRITON_CACHE_DIR: {end}",
    ], ran.stderr
