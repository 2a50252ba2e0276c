"""Writes recorded trees of /proc, /sys and /dev, as the kernel lays them out."""

from collections.abc import Mapping
from pathlib import Path

GIB = 2**30
MIB = 2**20
UNLIMITED_V1 = "9223372036854771712"


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    """Write each file with its text below `root`, and give `root`."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def v2_tree(root: Path, levels: Mapping[str, Mapping[str, str]], *, own: str) -> Path:
    """A machine with cgroup v2: the files of each cgroup, and the one that this process is in."""
    write_tree(
        root,
        {
            "proc/self/cgroup": f"0::{own}\n",
            "proc/self/mountinfo": "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        },
    )
    for level, files in levels.items():
        directory = root / "sys/fs/cgroup" / level.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        write_tree(directory, files)
    return root


def v1_tree(
    root: Path,
    controller: str,
    levels: Mapping[str, Mapping[str, str]],
    *,
    own: str,
    mounted: str = "/",
) -> Path:
    """A machine with cgroup v1; `mounted` is the cgroup that a container sees at the mount point."""
    mount = f"35 31 0:32 {mounted} /sys/fs/cgroup/{controller} rw - cgroup cgroup rw,{controller}\n"
    write_tree(
        root,
        {
            "proc/self/cgroup": f"4:{controller}:{own}\n0::/\n",
            "proc/self/mountinfo": mount,
        },
    )
    for level, files in levels.items():
        directory = root / "sys/fs/cgroup" / controller / level.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        write_tree(directory, files)
    return root
