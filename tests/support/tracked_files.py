# SPDX-License-Identifier: Apache-2.0
"""Reads git, or what an sdist lists: the files of the repository."""

import posixpath
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LISTED = ROOT / "ci_doctor_toolkit.egg-info" / "SOURCES.txt"


def tracked_files() -> list[str]:
    """Paths from the root, of files that are there: of git, in an unpacked sdist of its list."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        names = listed.stdout.split("\0")
    else:
        lines = _LISTED.read_text(encoding="utf-8").splitlines()
        # setuptools lists some files twice, the second time as `./name`.
        every = sorted({posixpath.normpath(line) for line in lines})
        names = [name for name in every if not name.startswith(_LISTED.parent.name)]
    return [name for name in names if name and (ROOT / name).is_file()]
