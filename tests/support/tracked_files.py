# SPDX-License-Identifier: Apache-2.0
"""Reads git, or what an sdist lists: the files of the repository."""

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
        names = [name for name in lines if not name.startswith(_LISTED.parent.name)]
    return [name for name in names if name and (ROOT / name).is_file()]
