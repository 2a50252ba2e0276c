"""Makes directories on disks that this machine does not have."""

from pathlib import Path

from ci_doctor.checks.disks import (
    DirectoryRole,
    Disks,
    JobDirectory,
    Mount,
    PlacedDirectory,
)

GIB = 2**30


def placed(
    *,
    total: int = 100 * GIB,
    free: int = 60 * GIB,
    inodes: int = 10_000_000,
    inodes_free: int = 9_000_000,
    kind: str = "ext4",
    role: DirectoryRole = DirectoryRole.TEMPORARY,
    name: str = "TMPDIR",
    device: int = 1,
    is_read_only: bool = False,
    is_refused: bool = False,
    is_writable: bool = True,
    reserved: int = 0,
) -> PlacedDirectory:
    """A directory on a disk with plenty of everything, but for what is named."""
    path = Path("/scratch") / name
    return PlacedDirectory(
        directory=JobDirectory(path=path, name=name, role=role),
        existing=path,
        device=device,
        mount=Mount(point=Path("/scratch disk"), kind=kind, source="/dev/vdb"),
        total=total,
        free=free,
        reserved=reserved,
        inodes=inodes,
        inodes_free=inodes_free,
        is_read_only=is_read_only,
        is_refused=is_refused,
        is_writable=is_writable,
    )


def disks_of(*directories: PlacedDirectory) -> Disks:
    """A machine with these directories alone."""
    return Disks(directories=directories, unanswered=())
