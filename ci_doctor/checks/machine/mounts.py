# SPDX-License-Identifier: Apache-2.0
"""Reads /proc/self/mountinfo: what is mounted where."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.context import CheckContext
from ci_doctor.system.processes.memory_events import unescaped

# Their room is memory, and small by intention.
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"}
)


class Mount(Struct, frozen=True, kw_only=True):
    """One mount: its directory, the kind of its file system, and what is mounted (a device)."""

    point: Path
    kind: str
    source: str

    @property
    def is_network(self) -> bool:
        """Whether files lie on another machine, or behind a program (FUSE)."""
        return self.kind in _NETWORK or self.kind == "fuse" or self.kind.startswith("fuse.")

    @property
    def is_in_memory(self) -> bool:
        """Whether files take memory."""
        return self.kind in IN_MEMORY


def read_mounts(context: CheckContext) -> tuple[Mount, ...]:
    """All mounts in view, in their order; none if /proc does not tell."""
    try:
        lines = (context.proc / "self" / "mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(parse_mounts(lines))


def parse_mounts(lines: Iterable[str]) -> list[Mount]:
    """The mounts in the lines of mountinfo (proc_pid_mountinfo(5)); other lines are left out."""
    mounts = []
    for line in lines:
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        words = after.split(" ")
        if not separator or len(fields) < 5 or len(words) < 2:
            continue
        point = Path(unescaped(fields[4]))
        mounts.append(Mount(point=point, kind=words[0], source=unescaped(words[1])))
    return mounts


def mount_holding(mounts: Iterable[Mount], path: Path) -> Mount | None:
    """The mount that `path` (absolute, without symbolic links) lies on; None if none is known.

    Of two with one directory the later one counts: it hides the other.
    """
    nearest = None
    for mount in mounts:
        if not path.is_relative_to(mount.point):
            continue
        if nearest is None or len(mount.point.parts) >= len(nearest.point.parts):
            nearest = mount
    return nearest
